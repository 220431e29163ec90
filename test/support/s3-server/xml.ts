/** A piece of XML that is already escaped. */
export interface Xml {
  readonly xml: string;
}

const escapes: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escapeText(text: string): string {
  return text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: keys may hold them, and S3 writes them as character references.
    /[&<>"\u0000-\u001f]/g,
    (char) => escapes[char] ?? `&#x${char.charCodeAt(0).toString(16)};`,
  );
}

/** `<name>…</name>`; text is escaped, elements are nested. */
export function element(
  name: string,
  content: string | number | boolean | readonly Xml[],
  attributes = '',
): Xml {
  const inner =
    typeof content === 'object'
      ? content.map((child) => child.xml).join('')
      : escapeText(String(content));
  return { xml: `<${name}${attributes}>${inner}</${name}>` };
}

/** The root element of a successful answer, in S3's namespace. */
export function resultDocument(name: string, content: string | readonly Xml[]): string {
  return xmlDocument(element(name, content, ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'));
}

export function xmlDocument(root: Xml): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n${root.xml}`;
}

export interface XmlNode {
  name: string;
  text: string;
  children: XmlNode[];
}

const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

function unescapeText(text: string): string {
  return text.replace(/&(#x[0-9a-f]+|#\d+|\w+);/gi, (whole, name: string) => {
    if (name.startsWith('#x')) return String.fromCodePoint(Number.parseInt(name.slice(2), 16));
    if (name.startsWith('#')) return String.fromCodePoint(Number(name.slice(1)));
    return entities[name] ?? whole;
  });
}

/**
 * Reads the small documents that S3 requests carry: elements and text; attributes are ignored,
 * no DOCTYPE, no CDATA. Gives null for anything that is not well-formed.
 */
export function parseXml(source: string): XmlNode | null {
  const root: XmlNode = { name: '', text: '', children: [] };
  const open: XmlNode[] = [root];
  const token = /<\?[^>]*\?>|<!--[\s\S]*?-->|<(\/?)([A-Za-z][\w.:-]*)([^<>]*?)(\/?)>|([^<]+)/gy;
  let end = 0;
  for (let match = token.exec(source); match; match = token.exec(source)) {
    end = token.lastIndex;
    const [, closing, name, , selfClosing, text] = match;
    const current = open.at(-1);
    if (!current) return null;
    if (text !== undefined) current.text += unescapeText(text);
    if (name === undefined) continue;
    if (closing) {
      if (open.pop()?.name !== name || open.length === 0) return null;
      continue;
    }
    const node: XmlNode = { name, text: '', children: [] };
    current.children.push(node);
    if (!selfClosing) open.push(node);
  }
  const [only] = root.children;
  const wellFormed = end === source.length && open.length === 1 && root.text.trim() === '';
  return wellFormed && root.children.length === 1 && only ? only : null;
}

/** The text of the first child of that name. */
export function childText(node: XmlNode, name: string): string | undefined {
  return node.children.find((child) => child.name === name)?.text.trim();
}
