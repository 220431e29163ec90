import type { SignedDocument } from '../../use-cases/statements/make-documents.ts';

const titles: Readonly<Record<string, string>> = {
  'sluice.erasure.v1': 'Certificate of erasure',
  'sluice.delivery.v1': 'Delivery record',
};

/** A document for people to read and to print: all that is signed, and the signature. It needs nothing from elsewhere. */
export function documentPage(document: SignedDocument): string {
  const title = titles[String(document.type)] ?? 'Document';
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>
body { font: 0.9rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 0.25rem 0; }
th, td { border: 1px solid #888; overflow-wrap: anywhere; padding: 0.2rem 0.5rem; text-align: left; vertical-align: top; }
@media print { body { margin: 0; max-width: none; } }
</style>
</head>
<body>
<h1>${title}</h1>
${valueHtml(document)}
<p>The JSON of this document is signed. Save it, and check it: <code>node sluice-check.mjs FOLDER --document FILE</code>.</p>
</body>
</html>
`;
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function valueHtml(value: unknown): string {
  if (value === null || value === undefined) return 'none';
  if (Array.isArray(value)) return listHtml(value);
  if (!isRecord(value)) return escapeHtml(String(value));
  const rows = Object.entries(value).map(
    ([name, one]) => `<tr><th scope="row">${label(name)}</th><td>${valueHtml(one)}</td></tr>`,
  );
  return `<table>${rows.join('')}</table>`;
}

/** Records with the same members are a table. */
function listHtml(values: readonly unknown[]): string {
  const [first] = values;
  if (!isRecord(first)) return values.length === 0 ? 'none' : values.map(valueHtml).join('<br>');
  const names = Object.keys(first);
  const head = names.map((name) => `<th scope="col">${label(name)}</th>`).join('');
  const rows = values.filter(isRecord).map((value) => {
    const cells = names.map((name) => `<td>${valueHtml(value[name])}</td>`);
    return `<tr>${cells.join('')}</tr>`;
  });
  return `<table><thead><tr>${head}</tr></thead><tbody>${rows.join('')}</tbody></table>`;
}

const label = (name: string): string => escapeHtml(name.replaceAll('_', ' '));

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
};
const escapeHtml = (text: string): string =>
  text.replace(/[&<>"]/g, (sign) => entities[sign] ?? '');
