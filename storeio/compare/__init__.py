"""Two stores side by side: where their logs differ, up to where they agree, what each alone holds."""
