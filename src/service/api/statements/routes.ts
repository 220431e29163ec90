import { type Static, Type } from 'typebox';
import { notFound } from '../../../foundation/domain/problem.ts';
import {
  findHead,
  findStatement,
  type ListedStatement,
  listStatements,
  type StatementHead as Head,
} from '../../../state/store/intervals/statements.ts';
import { readPublicKeys } from '../../use-cases/installation/signing.ts';
import { acknowledge } from '../../use-cases/statements/acknowledge.ts';
import { makeStatement, type StatementSources } from '../../use-cases/statements/make-statement.ts';
import { type Api, batchExportOf, type Reply } from '../api.ts';
import { offsetEnvelope, pageOf } from '../lists/paging.ts';
import { OffsetPageOf, PageQuery } from '../lists/schema.ts';
import { exportOperations, type Family } from '../operations.ts';
import { only } from '../schemas/error.ts';
import { Nullable, named, Ref, Time } from '../schemas/shapes.ts';

const Digest = Type.String({ description: 'SHA-256 of its bytes, lower-case hexadecimal.' });

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
  Type.Object(
    {
      number: Type.Integer(),
      sha256: Digest,
      rows: Type.Integer({ description: 'Rows that the receiver holds.' }),
      at: Time,
      rows_of_balance: Nullable(
        Type.Integer({
          description:
            'Rows of `balance.closing` of this statement; null: another statement has its number now.',
        }),
      ),
      difference: Nullable(
        Type.Integer({
          description: 'rows - rows_of_balance. Not 0: the receiver has lost or doubled rows.',
        }),
      ),
    },
    { description: 'The newest acknowledgement of the receiver; null: none yet.' },
  ),
);

const StatementHead = named(
  'StatementHead',
  Type.Object(
    {
      number: Type.Integer({ description: 'The newest statement; 0 before the first.' }),
      sha256: Nullable(Digest),
      made_at: Nullable(Time),
      put_number: Type.Integer({
        description: 'The newest statement that is at the destination. The others wait.',
      }),
      put_fault: Nullable(
        Type.String({ description: 'Why the next one could not be put; null: nothing is wrong.' }),
      ),
      acknowledged: Acknowledged,
    },
    { description: 'The newest statement. Give its number and digest to the checker as --head.' },
  ),
);
type StatementHead = Static<typeof StatementHead>;

const Sum = Type.Object({ rows: Type.Integer(), bytes: Type.Integer(), files: Type.Integer() });

const ListedStatementView = named(
  'Statement',
  Type.Object(
    {
      number: Type.Integer(),
      sha256: Digest,
      made_at: Time,
      period_start: Time,
      period_end: Time,
      bytes: Type.Integer({ description: 'Its size.' }),
      begins: Nullable(
        Type.String({
          description: 'first, restored or replaced, if a chain begins with it.',
        }),
      ),
      balance: Type.Object(
        { opening: Sum, delivered: Sum, removed: Sum, erased: Sum, closing: Sum },
        { description: 'opening + delivered - removed - erased = closing.' },
      ),
    },
    { description: 'A statement of an export; docs/receipts.md describes its bytes.' },
  ),
);

const Bytes = Type.Unknown({ description: 'The canonical bytes, as docs/receipts.md says.' });

const headView = (head: Head): StatementHead => {
  const { number, sha256, madeAt, putNumber, putFault, acknowledged, owedRows: owed } = head;
  return {
    ...{ number, sha256, made_at: madeAt, put_number: putNumber, put_fault: putFault },
    acknowledged: acknowledged && {
      ...acknowledged,
      rows_of_balance: owed,
      difference: owed === null ? null : acknowledged.rows - owed,
    },
  };
};

const statementView = ({ madeAt, periodStart, periodEnd, ...rest }: ListedStatement) => ({
  ...rest,
  ...{ made_at: madeAt, period_start: periodStart, period_end: periodEnd },
});

/** Sends bytes as they are signed. */
const sendBytes = (reply: Reply, bytes: Buffer) =>
  reply
    .type('application/json; charset=utf-8')
    .serializer((sent) => String(sent))
    .send(bytes.toString());

/** Signed statements of what was delivered. */
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
      return offsetEnvelope(request, page, listed, statementView);
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
      const { id } = batchExport;
      await acknowledge(request.context, batchExport, request.body);
      reply.code(201);
      return headView(await findHead(request.context.db, id));
    },
  );
  api.get(
    '/:id/statements/head',
    read(
      'retrieveStatementHead',
      'Retrieve the number and digest of the newest statement',
      ['id'],
      { response: { 200: Ref(StatementHead) } },
    ),
    async (request) => headView(await findHead(request.context.db, batchExportOf(request).id)),
  );
  api.get(
    '/:id/statements/:number',
    read('retrieveStatement', 'Retrieve the bytes of a statement', ['id', 'number'], {
      response: { 200: Bytes },
    }),
    async (request, reply) => {
      const { number } = request.params as unknown as { readonly number: number };
      const body = await findStatement(request.context.db, batchExportOf(request).id, number);
      if (body === null) throw notFound();
      return sendBytes(reply, body) as never;
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
    async (request, reply) => sendBytes(reply, await readPublicKeys(request.context.db)) as never,
  );
}
