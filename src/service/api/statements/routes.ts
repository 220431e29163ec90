import { type Static, Type } from 'typebox';
import { canonicalBytes } from '../../../foundation/domain/canonical-json.ts';
import { orNotFound } from '../../../foundation/domain/problem.ts';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import {
  findHead,
  findStatement,
  type StatementHead as Head,
  listStatements,
} from '../../../state/store/intervals/statements.ts';
import { readPublicKeys } from '../../use-cases/installation/signing.ts';
import {
  makeCertificate,
  makeDeliveryRecord,
  type SignedDocument,
} from '../../use-cases/statements/make-documents.ts';
import {
  acknowledge,
  makeStatement,
  type StatementSources,
} from '../../use-cases/statements/make-statement.ts';
import { type Api, batchExportOf, type Reply, reachOf } from '../api.ts';
import { only } from '../errors.ts';
import { OffsetPageOf, offsetEnvelope, PageQuery, pageOf } from '../lists.ts';
import { exportOperations, type Family } from '../operations.ts';
import type { Deps } from '../options.ts';
import { sendText } from '../replies.ts';
import {
  answers,
  Int,
  IntOrNull,
  Nullable,
  Part,
  Ref,
  Resource,
  Text,
  TextOrNull,
  Time,
} from '../shapes.ts';
import { MonthQuery } from '../usage/routes.ts';

const format = Type.Optional(
  Type.Enum(['json', 'html'], {
    default: 'json',
    description: 'json: the canonical bytes, signed. html: the same, to read and to print.',
  }),
);

const Document = Type.Unknown({ description: 'The canonical bytes, as docs/receipts.md says.' });

function send(reply: Reply, name: string, document: SignedDocument, as: 'json' | 'html' = 'json') {
  reply.header('content-disposition', `attachment; filename="${name}.${as}"`);
  return as === 'html'
    ? sendText(reply, 'text/html', documentPage(document))
    : sendText(reply, 'application/json', String(canonicalBytes(document)));
}

export function certificateRoutes(
  api: Api,
  family: Family,
  { statements }: Pick<Deps, 'statements'>,
): void {
  const { read } = exportOperations(family);
  api.get(
    '/:id/erasures/:request',
    read('retrieveErasure', 'Retrieve the certificate of an erasure', ['id', 'request'], {
      querystring: Type.Object({ format }),
      response: { 200: Document },
    }),
    async (request, reply) => {
      const { request: asked } = request.params as unknown as { readonly request: string };
      const batchExport = batchExportOf(request);
      const certificate = await makeCertificate(request.context, statements, batchExport, asked);
      return send(reply, `erasure-${asked}`, certificate, request.query.format);
    },
  );
}

export function deliveryRecordRoutes(api: Api, family: Family): void {
  const { read } = exportOperations(family);
  api.get(
    '',
    read('retrieveDeliveryRecord', 'Retrieve the delivery record of a month', [], {
      querystring: Type.Object({ month: MonthQuery.month, format }),
      response: { 200: Document },
    }),
    async (request, reply) => {
      const { context, query } = request;
      const record = await makeDeliveryRecord(context, reachOf(request), query.month ?? null);
      return send(reply, `delivery-${record.month}`, record, query.format);
    },
  );
}

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

const Digest = Text('SHA-256 of its bytes, lower-case hexadecimal.');

const AcknowledgementBody = Type.Object({
  number: Type.Integer({
    minimum: 1,
    maximum: 2_147_483_647,
    description: 'The newest statement that you have loaded.',
  }),
  sha256: Type.String({
    pattern: '^[0-9a-f]{64}$',
    description: 'SHA-256 of its bytes, lower-case hexadecimal.',
  }),
  rows: Type.Integer({
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    description: 'Rows of the export that you hold after it.',
  }),
});

const Acknowledged = Nullable(
  Part('The newest acknowledgement of the receiver; null: none yet.', {
    number: Type.Integer(),
    sha256: Digest,
    rows: Int('Rows that the receiver holds.'),
    at: Time,
    rows_of_balance: IntOrNull(
      'Rows of `balance.closing` of this statement; null: another statement has its number now.',
    ),
    difference: IntOrNull('rows - rows_of_balance. Not 0: the receiver has lost or doubled rows.'),
  }),
);

const StatementHead = Resource(
  'StatementHead',
  'The newest statement. Give its number and digest to the checker as --head.',
  {
    number: Int('The newest statement; 0 before the first.'),
    sha256: Nullable(Digest),
    made_at: Nullable(Time),
    put_number: Int('The newest statement that is at the destination. The others wait.'),
    put_fault: TextOrNull('Why the next one could not be put; null: nothing is wrong.'),
    acknowledged: Acknowledged,
  },
);
type StatementHead = Static<typeof StatementHead>;

const Sum = Type.Object({ rows: Type.Integer(), bytes: Type.Integer(), files: Type.Integer() });

const ListedStatementView = Resource(
  'Statement',
  'A statement of an export; docs/receipts.md describes its bytes.',
  {
    number: Type.Integer(),
    sha256: Digest,
    made_at: Time,
    period_start: Time,
    period_end: Time,
    bytes: Int('Its size.'),
    begins: TextOrNull('first, restored or replaced, if a chain begins with it.'),
    balance: Type.Object(
      { opening: Sum, delivered: Sum, removed: Sum, erased: Sum, closing: Sum },
      { description: 'opening + delivered - removed - erased = closing.' },
    ),
  },
);

const Bytes = Type.Unknown({ description: 'The canonical bytes, as docs/receipts.md says.' });

const headView = ({ acknowledged, owedRows: owed, ...head }: Head): StatementHead => {
  return {
    ...inSnakeCase(head),
    acknowledged: acknowledged && {
      ...acknowledged,
      rows_of_balance: owed,
      difference: owed === null ? null : acknowledged.rows - owed,
    },
  };
};

const headSummary = 'Retrieve the number and digest of the newest statement';

export function statementRoutes(
  api: Api,
  family: Family,
  { statements }: { readonly statements: StatementSources },
): void {
  const { read, write } = exportOperations(family);
  api.get(
    '/:id/statements',
    read('listStatements', 'List the statements', ['id'], {
      querystring: Type.Object(PageQuery),
      response: { 200: OffsetPageOf(ListedStatementView) },
    }),
    async (request) => {
      const page = pageOf(request.query);
      const { id } = batchExportOf(request);
      const listed = await listStatements(request.context.db, id, page);
      return offsetEnvelope(request, page, listed, inSnakeCase);
    },
  );
  api.post(
    '/:id/statements',
    write('createStatement', 'Make a statement now', ['id'], {
      response: { 201: Ref(StatementHead) },
    }),
    async (request, reply) => {
      const { id } = batchExportOf(request);
      await makeStatement(request.context, statements, id);
      reply.code(201);
      return headView(await findHead(request.context.db, id));
    },
  );
  api.post(
    '/:id/acknowledgements',
    write('createAcknowledgement', 'Acknowledge a statement', ['id'], {
      body: AcknowledgementBody,
      response: { 201: Ref(StatementHead) },
    }),
    async (request, reply) => {
      const batchExport = batchExportOf(request);
      await acknowledge(request.context, batchExport, request.body);
      reply.code(201);
      return headView(await findHead(request.context.db, batchExport.id));
    },
  );
  api.get(
    '/:id/statements/head',
    read('retrieveStatementHead', headSummary, ['id'], answers(StatementHead)),
    async (request) => headView(await findHead(request.context.db, batchExportOf(request).id)),
  );
  api.get(
    '/:id/statements/:number',
    read('retrieveStatement', 'Retrieve the bytes of a statement', ['id', 'number'], {
      response: { 200: Bytes },
    }),
    async (request, reply) => {
      const { number } = request.params as unknown as { readonly number: number };
      const body = orNotFound(
        await findStatement(request.context.db, batchExportOf(request).id, number),
      );
      return sendText(reply, 'application/json', body.toString());
    },
  );
}

/** The public keys need no key of the API: the reader of a statement has none. */
export function signingKeyRoutes(api: Api): void {
  api.get(
    '/api/signing_keys',
    {
      schema: {
        tags: ['Operation'],
        operationId: 'listSigningKeys',
        summary: 'List the public keys that sign manifests and statements',
        description:
          'The bytes of `_sluice/keys.json`. Compare them with those in a bucket, or give a fingerprint to the checker as --key.',
        security: [],
        response: { 200: Bytes, ...only(400) },
      },
    },
    async ({ context }, reply) =>
      sendText(reply, 'application/json', String(await readPublicKeys(context.db))),
  );
}
