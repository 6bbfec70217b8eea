package storeio;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Not;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.sources.StringContains;
import org.apache.spark.sql.sources.StringEndsWith;
import org.apache.spark.sql.sources.StringStartsWith;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Tells the data source which columns and rows a query wants: each of its scans becomes one of its own, with the
 * columns that the nodes above use and with their conditions as the option "pushed". The conditions stay in the plan,
 * too, so that the source may let through more than they do.
 *
 * <p>Compiled in the driver by the compiler that Spark brings for its own generated code, see pushdown.py.
 */
public final class StorePushDown extends Rule {
  private static final ObjectMapper JSON = new ObjectMapper();
  private final String source;
  private final String option;

  public StorePushDown(String source, String option) {
    this.source = source;
    this.option = option;
  }

  /** A scan that has been told; by its class it is not told again. */
  public static final class ToldScan extends PythonScan {
    public ToldScan(
        PythonDataSourceV2 read,
        String name,
        StructType schema,
        CaseInsensitiveStringMap options,
        org.apache.spark.sql.sources.Filter[] shown) {
      super(read, name, schema, options, shown);
    }
  }

  public TreeNode apply(TreeNode plan) {
    try {
      return rewritten((LogicalPlan) plan);
    } catch (com.fasterxml.jackson.core.JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  private LogicalPlan rewritten(LogicalPlan plan) throws com.fasterxml.jackson.core.JsonProcessingException {
    LogicalPlan below = plan;
    AttributeSet wanted = null;
    if (plan instanceof Project || plan instanceof Aggregate) {
      wanted = plan.references();
      below = only(plan);
    }
    List conditions = new ArrayList();
    while (below instanceof Filter) {
      Expression condition = ((Filter) below).condition();
      if (condition.deterministic()) {
        split(condition, conditions);
      } else {
        conditions.clear(); // what is above it must see all rows that it sees
      }
      if (wanted != null) {
        wanted = wanted.$plus$plus(condition.references());
      }
      below = only(below);
    }
    if (isOurs(below) && (wanted != null || !conditions.isEmpty())) {
      return swapped(plan, below, told((DataSourceV2ScanRelation) below, wanted, conditions));
    }
    List children = new ArrayList();
    boolean changed = false;
    for (Iterator each = CollectionConverters.asJava(plan.children()).iterator(); each.hasNext(); ) {
      LogicalPlan child = (LogicalPlan) each.next();
      LogicalPlan made = rewritten(child);
      changed |= made != child;
      children.add(made);
    }
    return changed ? withChildren(plan, children) : plan;
  }

  private boolean isOurs(LogicalPlan plan) {
    if (!(plan instanceof DataSourceV2ScanRelation)) {
      return false;
    }
    DataSourceV2ScanRelation scan = (DataSourceV2ScanRelation) plan;
    return scan.scan() instanceof PythonScan
        && !(scan.scan() instanceof ToldScan)
        && ((DataSourceV2Relation) scan.relation()).table() instanceof PythonTable
        && ((DataSourceV2Relation) scan.relation()).table().name().equals(source);
  }

  private DataSourceV2ScanRelation told(DataSourceV2ScanRelation scan, AttributeSet wanted, List conditions)
      throws com.fasterxml.jackson.core.JsonProcessingException {
    List filters = new ArrayList();
    List pushed = new ArrayList();
    for (Iterator each = conditions.iterator(); each.hasNext(); ) {
      scala.Option filter = DataSourceStrategy$.MODULE$.translateFilter((Expression) each.next(), false);
      List words = filter.isEmpty() ? null : words((org.apache.spark.sql.sources.Filter) filter.get());
      if (words != null) {
        filters.add(filter.get());
        pushed.add(words);
      }
    }
    List kept = new ArrayList();
    AttributeReference smallest = null; // a scan has at least one column
    for (Iterator each = CollectionConverters.asJava(scan.output()).iterator(); each.hasNext(); ) {
      AttributeReference column = (AttributeReference) each.next();
      if (wanted == null || wanted.contains(column)) {
        kept.add(column);
      }
      if (smallest == null || column.dataType().defaultSize() < smallest.dataType().defaultSize()) {
        smallest = column;
      }
    }
    if (kept.isEmpty()) {
      kept.add(smallest);
    }
    StructField[] fields = new StructField[kept.size()];
    for (int n = 0; n < fields.length; n++) {
      AttributeReference column = (AttributeReference) kept.get(n);
      fields[n] = new StructField(column.name(), column.dataType(), column.nullable(), column.metadata());
    }
    Map options = new HashMap(((DataSourceV2Relation) scan.relation()).options().asCaseSensitiveMap());
    options.put(option, JSON.writeValueAsString(pushed));
    PythonDataSourceV2 read = new PythonDataSourceV2(); // one that others share remembers the last query's rows
    read.setShortName(source);
    ToldScan made =
        new ToldScan(
            read,
            source,
            new StructType(fields),
            new CaseInsensitiveStringMap(options),
            (org.apache.spark.sql.sources.Filter[])
                filters.toArray(new org.apache.spark.sql.sources.Filter[filters.size()]));
    return scan.copy(
        scan.relation(),
        made,
        CollectionConverters.asScala(kept).toSeq(),
        scan.copy$default$4(),
        scan.copy$default$5(),
        scan.copy$default$6());
  }

  /** Returns a filter as a list of words, null where the source cannot use it. */
  private static List words(org.apache.spark.sql.sources.Filter filter) {
    if (filter instanceof EqualTo) {
      return leaf("=", ((EqualTo) filter).attribute(), ((EqualTo) filter).value());
    }
    if (filter instanceof EqualNullSafe) {
      return leaf("<=>", ((EqualNullSafe) filter).attribute(), ((EqualNullSafe) filter).value());
    }
    if (filter instanceof GreaterThan) {
      return leaf(">", ((GreaterThan) filter).attribute(), ((GreaterThan) filter).value());
    }
    if (filter instanceof GreaterThanOrEqual) {
      return leaf(">=", ((GreaterThanOrEqual) filter).attribute(), ((GreaterThanOrEqual) filter).value());
    }
    if (filter instanceof LessThan) {
      return leaf("<", ((LessThan) filter).attribute(), ((LessThan) filter).value());
    }
    if (filter instanceof LessThanOrEqual) {
      return leaf("<=", ((LessThanOrEqual) filter).attribute(), ((LessThanOrEqual) filter).value());
    }
    if (filter instanceof In) {
      return leaf("in", ((In) filter).attribute(), Arrays.asList(((In) filter).values()));
    }
    if (filter instanceof IsNull) {
      return leaf("is null", ((IsNull) filter).attribute(), null);
    }
    if (filter instanceof IsNotNull) {
      return leaf("is not null", ((IsNotNull) filter).attribute(), null);
    }
    if (filter instanceof StringStartsWith) {
      return leaf("starts", ((StringStartsWith) filter).attribute(), ((StringStartsWith) filter).value());
    }
    if (filter instanceof StringEndsWith) {
      return leaf("ends", ((StringEndsWith) filter).attribute(), ((StringEndsWith) filter).value());
    }
    if (filter instanceof StringContains) {
      return leaf("contains", ((StringContains) filter).attribute(), ((StringContains) filter).value());
    }
    if (filter instanceof Not) {
      return joined("not", words(((Not) filter).child()), new ArrayList());
    }
    if (filter instanceof Or) {
      return joined("or", words(((Or) filter).left()), words(((Or) filter).right()));
    }
    if (filter instanceof org.apache.spark.sql.sources.And) {
      org.apache.spark.sql.sources.And both = (org.apache.spark.sql.sources.And) filter;
      return joined("and", words(both.left()), words(both.right()));
    }
    return null;
  }

  private static List leaf(String word, String column, Object value) {
    for (Iterator each = (value instanceof List ? (List) value : Arrays.asList(new Object[] {value})).iterator();
        each.hasNext(); ) {
      Object one = each.next();
      boolean number = one instanceof Byte || one instanceof Short || one instanceof Integer || one instanceof Long;
      boolean text = one instanceof String && ((String) one).indexOf('\uFFFD') < 0; // may stand for malformed bytes
      if (one != null && !number && !text && !(one instanceof Boolean)) {
        return null;
      }
    }
    return Arrays.asList(new Object[] {word, column, value});
  }

  private static List joined(String word, List left, List right) {
    if (left == null || right == null) {
      return null;
    }
    return right.isEmpty() ? Arrays.asList(new Object[] {word, left}) : Arrays.asList(new Object[] {word, left, right});
  }

  private static void split(Expression condition, List found) {
    if (condition instanceof And) {
      split(((And) condition).left(), found);
      split(((And) condition).right(), found);
    } else {
      found.add(condition);
    }
  }

  private static LogicalPlan only(LogicalPlan plan) {
    return (LogicalPlan) plan.children().head();
  }

  private static LogicalPlan swapped(LogicalPlan plan, LogicalPlan old, LogicalPlan made) {
    if (plan == old) {
      return made;
    }
    List children = new ArrayList();
    children.add(swapped(only(plan), old, made));
    return withChildren(plan, children);
  }

  private static LogicalPlan withChildren(LogicalPlan plan, List children) {
    return (LogicalPlan) plan.withNewChildren(CollectionConverters.asScala(children).toSeq());
  }
}
