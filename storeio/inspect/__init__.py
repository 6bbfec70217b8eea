"""What a store holds, shown: files, records, units, index entries, bytes with their meaning."""
