import { Type } from 'typebox';
import { listProjectOverviews } from '../../../state/store/exports/export-lists.ts';
import { type Api, reachOf } from '../api.ts';
import { countsView, ExportHealthCounts } from '../batch-exports/search.ts';
import { offsetEnvelope, pageOf } from '../lists/paging.ts';
import { OffsetPageOf, PageQuery } from '../lists/schema.ts';
import { type Family, projectOperations } from '../operations.ts';
import { named, Ref } from '../schemas/shapes.ts';

export const ProjectOverview = named(
  'ProjectOverview',
  Type.Object(
    {
      id: Type.Integer({ description: 'Identifier of the project, for paths.' }),
      name: Type.String(),
      batch_exports: Ref(ExportHealthCounts),
    },
    { description: 'A project, and the health of its exports.' },
  ),
);

const ProjectListQuery = Type.Object({
  ...PageQuery,
  search: Type.Optional(
    Type.String({ maxLength: 400, description: 'Part of the name; case does not matter.' }),
  ),
  ordering: Type.Optional(
    Type.Enum(['id', '-id', 'name', '-name', 'health', '-health'], {
      description:
        'Default id. health: the project with the most failing exports first, then the most late ones and so on.',
    }),
  ),
});

/** The projects of an organization. */
export function projectRoutes(api: Api, family: Family): void {
  const { read } = projectOperations(family);

  api.get(
    '',
    read('listProjects', 'List the projects of an organization', [], {
      querystring: ProjectListQuery,
      response: { 200: OffsetPageOf(ProjectOverview) },
    }),
    async (request) => {
      const { search = '', ordering = 'id' } = request.query;
      const page = pageOf(request.query);
      const overviews = await listProjectOverviews(
        request.context.db,
        reachOf(request).organizationId,
        {
          search: search === '' ? null : search,
          orderBy: ordering.replace('-', '') as 'id' | 'name' | 'health',
          descending: ordering.startsWith('-'),
        },
        page,
      );
      return offsetEnvelope(request, page, overviews, ({ id, name, counts }) => ({
        id,
        name,
        batch_exports: countsView(counts),
      }));
    },
  );
}
