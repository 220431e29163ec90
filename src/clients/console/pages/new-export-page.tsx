import { useConsole, useDescription } from '../console-context.ts';
import { ExportForm } from '../form/export-form.tsx';
import { NeedsScope } from '../parts/needs-scope.tsx';
import { Failure, Loading, Trouble } from '../parts/notice.tsx';
import { hrefOf } from '../route.ts';
import { useTitle } from '../use-title.ts';
import { useResource } from '../use-resource.ts';
import { ExportZone } from '../use-times.ts';

/** The form of a new export. */
export function NewExportPage() {
  const description = useDescription();
  useTitle('New export');
  return (
    <>
      <nav className="crumbs small" aria-label="Place">
        <a href={hrefOf({ page: 'exports' })}>Exports</a>
      </nav>
      <div className="row heading">
        <h1>New export</h1>
      </div>
      <NeedsScope scope="batch_export:write">
        {description.data ? (
          <ExportForm description={description.data} batchExport={null} />
        ) : (
          <FormOnItsWay />
        )}
      </NeedsScope>
    </>
  );
}

/** Shown until the OpenAPI document is loaded: the form depends on it. */
export function FormOnItsWay() {
  const description = useDescription();
  const { failure, reload } = description;
  return failure ? <Failure failure={failure} onRetry={reload} /> : <Loading lines={8} />;
}

export function EditExportPage({ exportId }: { exportId: string }) {
  const { api } = useConsole();
  const description = useDescription();
  const { data, failure, reload } = useResource({
    key: exportId,
    // Loaded once: a later answer must not overwrite what the operator has typed.
    load: (signal) => api.get('batch_exports/{id}', { id: exportId }, signal),
  });
  useTitle(data ? `Edit ${data.name}` : 'Edit');
  return (
    <ExportZone value={data?.timezone ?? 'UTC'}>
      <nav className="crumbs small" aria-label="Place">
        <a href={hrefOf({ page: 'exports' })}>Exports</a>
        <a href={hrefOf({ page: 'export', exportId, tab: 'settings' })}>{data?.name ?? 'Export'}</a>
      </nav>
      <div className="row heading">
        <h1>Edit</h1>
      </div>
      <Trouble what="export" failure={failure} onRetry={reload} />
      <NeedsScope scope="batch_export:write">
        {data && description.data ? (
          <ExportForm key={exportId} description={description.data} batchExport={data} />
        ) : (
          !failure && <FormOnItsWay />
        )}
      </NeedsScope>
    </ExportZone>
  );
}
