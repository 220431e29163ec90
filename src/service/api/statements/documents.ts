import { Type } from 'typebox';
import { canonicalBytes } from '../../../foundation/domain/canonical-json.ts';
import {
  makeCertificate,
  makeDeliveryRecord,
  type SignedDocument,
} from '../../use-cases/statements/make-documents.ts';
import { type Api, batchExportOf, type Reply, reachOf } from '../api.ts';
import { exportOperations, type Family } from '../operations.ts';
import type { Deps } from '../options.ts';
import { MonthQuery } from '../usage/month.ts';
import { documentPage } from './document-page.ts';

const format = Type.Optional(
  Type.Enum(['json', 'html'], {
    default: 'json',
    description: 'json: the canonical bytes, signed. html: the same, to read and to print.',
  }),
);

const Document = Type.Unknown({ description: 'The canonical bytes, as docs/receipts.md says.' });

/** Sends a document as a file. */
function send(reply: Reply, name: string, document: SignedDocument, as: 'json' | 'html' = 'json') {
  const text = as === 'html' ? documentPage(document) : String(canonicalBytes(document));
  reply.header('content-disposition', `attachment; filename="${name}.${as}"`);
  return reply
    .type(as === 'html' ? 'text/html; charset=utf-8' : 'application/json; charset=utf-8')
    .serializer((sent) => String(sent))
    .send(text) as never;
}

/** The certificate of an erasure. */
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

/** The record of a month, for the customer. */
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
