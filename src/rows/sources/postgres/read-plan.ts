/** A node of EXPLAIN's JSON. */
export interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Index Cond'?: string;
  readonly Plans?: readonly PlanNode[];
}

/** What a plan does that costs more than reading the interval's rows. */
export interface PlanReading {
  /** Such as `Index Scan using orders_by_time`, without repeats. */
  readonly steps: readonly string[];
  /** Relations that are read completely. */
  readonly wholeRelations: readonly string[];
  /** The condition of each index use; empty if it walks the whole index. */
  readonly conditions: readonly string[];
}

export function readPlan(root: PlanNode): PlanReading {
  const nodes = flatten(root).filter((node) => node['Relation Name'] ?? node['Index Name']);
  const steps = nodes.map((node) => {
    const index = node['Index Name'];
    return `${node['Node Type']} ${index ? `using ${index}` : `on ${node['Relation Name']}`}`;
  });
  return {
    steps: [...new Set(steps)],
    wholeRelations: nodes
      .filter((node) => /Seq Scan$/.test(node['Node Type']))
      .map((node) => node['Relation Name'] ?? ''),
    conditions: nodes
      .filter((node) => node['Index Name'] !== undefined)
      .map((node) => node['Index Cond'] ?? ''),
  };
}

function flatten(node: PlanNode): readonly PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)];
}
