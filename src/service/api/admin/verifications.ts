import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { Type } from 'typebox';
import { verifyResults } from '../../../foundation/domain/verification.ts';
import { listVerifications } from '../../../state/store/intervals/verifications.ts';
import type { Api } from '../api.ts';
import { offsetEnvelope, pageOf } from '../lists/paging.ts';
import { OffsetPageOf, PageQuery } from '../lists/schema.ts';
import { Nullable, named, Time } from '../schemas/shapes.ts';
import { operation } from './tenants.ts';

const Count = Type.Integer({ minimum: 0 });
const Result = Type.Enum([...verifyResults], {
  description:
    'broken: a promise does not hold. unread: the files or the source could not be read to the end. incomplete: requested intervals have no data. nothing_yet: no interval has been exported, so nothing is proven. proven: the files contain each source row exactly once.',
});

export const Verification = named(
  'Verification',
  Type.Object({
    export_id: Type.String({ format: 'uuid' }),
    name: Type.String(),
    project_id: Type.Integer(),
    organization_id: Type.String({ format: 'uuid' }),
    organization_name: Type.String(),
    verified_at: Time,
    result: Result,
    intervals: Count,
    rows: Count,
    breaches: Count,
    detail: Type.String({ description: 'What was found, and the remedy.' }),
    failed_since: Nullable({
      ...Time,
      description: 'Since when the result is broken or unread; null: it is not.',
    }),
  }),
);

/** The results of VERIFY_SCHEDULE. */
export function verificationRoutes(api: Api): void {
  api.get(
    '/verifications',
    operation(
      'operator:read',
      'listVerifications',
      'List the newest verification of each export by VERIFY_SCHEDULE',
      {
        description: 'Those that are broken or could not be read come first.',
        querystring: Type.Object({
          ...PageQuery,
          result: Type.Optional(Type.Array(Result, { description: 'May be repeated.' })),
        }),
        response: { 200: OffsetPageOf(Verification) },
      },
    ),
    async (request) => {
      const page = pageOf(request.query);
      const verifications = await listVerifications(
        request.context.db,
        request.query.result ?? null,
        page,
      );
      return offsetEnvelope(request, page, verifications, ({ teamId, ...one }) => ({
        ...inSnakeCase(one),
        project_id: teamId,
      }));
    },
  );
}
