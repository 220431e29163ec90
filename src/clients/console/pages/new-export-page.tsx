import { useDescription } from '../console-context.ts';
import { ExportForm } from '../form/export-form.tsx';
import { NeedsScope } from '../parts/needs-scope.tsx';
import { Failure, Loading } from '../parts/notice.tsx';
import { hrefOf } from '../route.ts';
import { useTitle } from '../use-title.ts';

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
