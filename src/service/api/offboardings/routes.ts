import { Type } from 'typebox';
import { orNotFound } from '../../../foundation/domain/problem.ts';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import {
  findOffboarding,
  listOffboardings,
  listRemainingFiles,
  type Offboarding,
} from '../../../state/store/tenants/offboardings.ts';
import { offboardTenant } from '../../use-cases/tenants/offboard.ts';
import { type Api, callerOf } from '../api.ts';
import { OptionalInt, Text } from '../shapes.ts';

const CreateOffboarding = Type.Object(
  {
    organization_id: Type.String({ format: 'uuid', description: 'The organization.' }),
    project_id: OptionalInt({
      minimum: 1,
      maximum: 2_147_483_647,
      description: 'Only this project of the organization; absent: the whole organization.',
    }),
    confirm_name: Text('The name of what is deleted: of the project if one is named.'),
  },
  { additionalProperties: false },
);

const OffboardingParams = Type.Object({ id: Type.String({ format: 'uuid' }) });

const NoQuery = Type.Object({}, { additionalProperties: false });

const maxListed = 1_000;

/** The deletion of organizations and projects. Only for operators: the scope that it is added to admits them. */
export function offboardingRoutes(api: Api): void {
  api.post(
    '/admin/offboardings',
    { schema: { hide: true, querystring: NoQuery, body: CreateOffboarding } },
    async (request, reply) => {
      const { organization_id, project_id, confirm_name } = request.body;
      const caller = callerOf(request);
      const organizationId = organization_id.toLowerCase();
      const teamId = project_id ?? null;
      const input = { organizationId, teamId, confirmName: confirm_name };
      const offboarding = await offboardTenant(request.context.db, input, caller.id);
      reply.code(202);
      return offboardingView(offboarding);
    },
  );

  api.get(
    '/admin/offboardings',
    { schema: { hide: true, querystring: NoQuery } },
    async ({ context }) => ({
      results: (await listOffboardings(context.db, maxListed)).map(offboardingView),
    }),
  );

  api.get(
    '/admin/offboardings/:id',
    { schema: { hide: true, querystring: NoQuery, params: OffboardingParams } },
    async ({ context, params }) => {
      const record = orNotFound(await findOffboarding(context.db, params.id));
      const remaining = await listRemainingFiles(context.db, record.id, 100_000);
      return { ...offboardingView(record), remaining_files: remaining.map(inSnakeCase) };
    },
  );
}

function offboardingView({ teamId, lastError, ...offboarding }: Offboarding) {
  return {
    ...inSnakeCase(offboarding),
    project_id: teamId,
    waits_for: offboarding.completedAt === null ? lastError : null,
  };
}
