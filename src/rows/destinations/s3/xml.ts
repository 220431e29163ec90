import { setImmediate as nextTurn } from 'node:timers/promises';
import sax from 'sax';

/** An element of a store's document, by its name without prefix. */
export interface XmlElement {
  readonly name: string;
  /** The text of an element without children. */
  text: string;
  readonly children: XmlElement[];
}

/**
 * Limits of a document. A page of 1,000 keys has 11,000 elements; a key has 1,024 bytes; the deepest
 * answer of S3 has five levels. The SDK parses what is printed again, at once, and takes long for entities.
 */
const bounds = {
  ...{ elements: 25_000, depth: 16, nameLength: 100, attributes: 20 },
  ...{ textLength: 8_192, entities: 20_000 },
} as const;

/** Characters between two turns of the event loop: a few milliseconds of work. */
const sliceLength = 64 * 1024;

/**
 * Reads a whole, well-formed document. Attributes, comments and a DOCTYPE are left out; only the five entities of XML
 * exist, so nothing that a document declares is looked up or repeated.
 *
 * @returns its root; null if it is not such a document, or more would be made of it than the bounds allow
 */
export async function readXml(text: string): Promise<XmlElement | null> {
  const reader = openReader();
  for (let at = 0; at < text.length; at += sliceLength) {
    if (at > 0) await nextTurn();
    if (!reader.write(text.slice(at, at + sliceLength))) return null;
  }
  return reader.end();
}

/** Reads a document at once, as `readXml` does. It has at most `sliceLength` characters; a longer one is null. */
export function readShortXml(text: string): XmlElement | null {
  const reader = openReader();
  return text.length <= sliceLength && reader.write(text) ? reader.end() : null;
}

/** Stores refer to control characters of keys, which strict XML does not allow. By name: `#x1b`, `#27`. */
const controlCharacters = Object.fromEntries(
  Array.from({ length: 0x9f }, (_, index) => index + 1)
    .filter((code) => code < 0x20 || code > 0x7e)
    .flatMap((code) => {
      const hex = code.toString(16);
      const names = [`#${code}`, `#x${hex}`, `#x${hex.padStart(2, '0')}`];
      return names.map((name) => [name, String.fromCharCode(code)]);
    }),
);

function openReader() {
  const parser = sax.parser(true, { position: false });
  Object.assign((parser as unknown as { ENTITIES: object }).ENTITIES, controlCharacters);
  const root: XmlElement = { name: '', text: '', children: [] };
  const open = [root];
  let elements = 0;
  let attributes = 0;
  let entities = 0;
  const refuse = (): never => {
    throw new RangeError('more than a store answers');
  };
  const addText = (text: string) => {
    const element = open.at(-1);
    if (!element || open.length === 1) return;
    element.text += text;
    entities += text.match(mustEscape)?.length ?? 0;
    if (element.text.length > bounds.textLength || entities > bounds.entities) refuse();
    if (unstorable.test(element.text)) refuse();
  };
  parser.onerror = (error) => {
    throw error;
  };
  parser.onattribute = () => {
    attributes += 1;
    if (attributes > bounds.attributes) refuse();
  };
  parser.onopentag = ({ name: full }) => {
    const name = full.slice(full.indexOf(':') + 1);
    const element: XmlElement = { name, text: '', children: [] };
    elements += 1;
    attributes = 0;
    if (elements > bounds.elements || open.length > bounds.depth) refuse();
    if (name.length > bounds.nameLength) refuse();
    open.at(-1)?.children.push(element);
    open.push(element);
  };
  parser.onclosetag = () => {
    const element = open.pop();
    if (element && element.children.length > 0) element.text = '';
  };
  parser.ontext = addText;
  parser.oncdata = addText;
  const attempt = (step: () => unknown): boolean => {
    try {
      step();
      return true;
    } catch {
      return false;
    }
  };
  return {
    write: (text: string) => attempt(() => parser.write(text)),
    end: () =>
      attempt(() => parser.close()) && root.children.length === 1
        ? (root.children[0] ?? null)
        : null,
  };
}

/** A document without all that `readXml` leaves out: every parser reads the same in it, in the same time. */
export function printXml({ name, text, children }: XmlElement): string {
  const inside = children.length > 0 ? children.map(printXml).join('') : escapeXml(text);
  return `<${name}>${inside}</${name}>`;
}

const escapes: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;' };
/** XML has no such characters, and PostgreSQL cannot store them. */
const unstorable = /[\0\p{Cs}]/u;
/** Keys may have control characters, which XML has as references only. */
const mustEscape = /[&<]|[^\P{Cc}\t\n]/gu;

export function escapeXml(text: string): string {
  return text.replace(mustEscape, (c) => escapes[c] ?? `&#${c.charCodeAt(0)};`);
}

/** The texts of the elements below a root, by their path: `Code` or `Error/Code`; the first of each. */
export function textsBelow(root: XmlElement): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  const add = ({ children }: XmlElement, before: string, levels: number) => {
    for (const child of children) {
      const path = before + child.name;
      if (child.children.length === 0 && !texts.has(path)) texts.set(path, child.text);
      if (levels > 1) add(child, `${path}/`, levels - 1);
    }
  };
  add(root, '', 2);
  return texts;
}

export const childrenOf = ({ children }: XmlElement, name: string): readonly XmlElement[] =>
  children.filter((child) => child.name === name);

/** The text of the first child of that name; '' if there is none. */
export const textIn = ({ children }: XmlElement, name: string): string =>
  children.find((child) => child.name === name)?.text ?? '';
