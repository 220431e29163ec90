import type * as Acorn from 'acorn';

/** Without recursion: hostile text may be nested deeply. */
export function walk(root: Acorn.Node, visit: (node: Acorn.AnyNode) => void): void {
  const queue: Acorn.Node[] = [root];
  for (let node = queue.pop(); node; node = queue.pop()) {
    visit(node as Acorn.AnyNode);
    for (const value of Object.values(node)) {
      for (const child of Array.isArray(value) ? value : [value]) {
        if (isNode(child)) queue.push(child);
      }
    }
  }
}

function isNode(value: unknown): value is Acorn.Node {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as { type?: unknown }).type === 'string'
  );
}

export function boundNames(pattern: Acorn.Pattern): string[] {
  switch (pattern.type) {
    case 'Identifier':
      return [pattern.name];
    case 'ObjectPattern':
      return pattern.properties.flatMap((property) =>
        boundNames(property.type === 'Property' ? property.value : property.argument),
      );
    case 'ArrayPattern':
      return pattern.elements.flatMap((element) => (element ? boundNames(element) : []));
    case 'AssignmentPattern':
      return boundNames(pattern.left);
    case 'RestElement':
      return boundNames(pattern.argument);
    default:
      return [];
  }
}
