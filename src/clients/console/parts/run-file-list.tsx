import type { RunFiles } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { formatBytes, formatCount } from '../numbers.ts';
import { hrefOf } from '../route.ts';
import { offsetOf, useQuery } from '../use-query.ts';
import { openFile } from '../save-file.ts';
import { useAction } from '../use-action.ts';
import { useResource } from '../use-resource.ts';
import { CopyText } from './copy-text.tsx';
import { Failure, Pending } from './notice.tsx';
import { OffsetPager } from './pager.tsx';
import { ScrolledTable } from './scrolled-table.tsx';

const filesPageSize = 50;

interface Props {
  readonly exportId: string;
  readonly runId: string;
}

/** The files of a completed run, with what a consumer needs to fetch and check them. */
export function RunFileList({ exportId, runId }: Props) {
  const { api } = useConsole();
  const { query } = useQuery();
  const offset = offsetOf(query, 'files');
  const { data, failure, reload } = useResource({
    key: `${runId} ${offset}`,
    load: (signal) =>
      api.get(
        'batch_exports/{batch_export_id}/runs/{id}/files',
        { batch_export_id: exportId, id: runId, limit: filesPageSize, offset },
        signal,
      ),
  });
  return (
    <section aria-label="Files">
      <h2 className="section">Files</h2>
      <Pending {...{ data, failure, reload }} lines={2} />
      {data && <Current files={data} exportId={exportId} runId={runId} />}
      {data && <OffsetPager page={data} pageSize={filesPageSize} offset={offset} name="files" />}
    </section>
  );
}

function Current({ files, exportId, runId }: Props & { readonly files: RunFiles }) {
  const { results, manifest, current_run: current } = files;
  if (current === null) return <p className="muted">The interval has no files.</p>;
  const later =
    current === runId ? null : (
      <p className="muted">
        A <a href={hrefOf({ page: 'run', exportId, runId: current })}>later run</a>{' '}
        {results.length === 0
          ? 'has replaced the files of this one.'
          : 'has added rows to the interval, in further files.'}
      </p>
    );
  if (later && results.length === 0) return later;
  if (results.length === 0 && manifest === null) {
    return <p className="muted">The interval has no files.</p>;
  }
  return (
    <>
      {later}
      <FileTable {...{ results, manifest, exportId, runId }} />
    </>
  );
}

type TableProps = Props & Pick<RunFiles, 'results' | 'manifest'>;

function FileTable({ results, manifest, exportId, runId }: TableProps) {
  const { api, may } = useConsole();
  const download = useAction(async (key: string) => {
    const path = 'batch_exports/{batch_export_id}/runs/{id}/link';
    const { url } = await api.post(path, { batch_export_id: exportId, id: runId }, { key });
    openFile(url);
  });
  const mayDownload = may('file:read');
  const downloadOf = (key: string) =>
    mayDownload && (
      <td>
        <button
          type="button"
          className="quiet"
          aria-label={`Download ${key}`}
          aria-disabled={download.busy}
          onClick={() => download.run(key)}
        >
          Download
        </button>
      </td>
    );
  const heads = ['Object', 'Rows', 'Size', 'SHA-256', ...(mayDownload ? ['Link'] : [])];
  return (
    <>
      <ScrolledTable label="Objects" heads={heads}>
        {results.map(({ key, uri, rows, bytes, sha256, rejected }) => (
          <tr key={key}>
            <th scope="row">
              <CopyText what="path" text={uri ?? key} />
              {rejected && <small className="muted"> rejected rows</small>}
            </th>
            <td>{formatCount(rows)}</td>
            <td>{formatBytes(bytes)}</td>
            <td>
              <code>{sha256}</code>
            </td>
            {downloadOf(key)}
          </tr>
        ))}
        {manifest && (
          <tr>
            <th scope="row">
              <CopyText what="path" text={manifest.uri ?? manifest.key} />
              <small className="muted"> manifest</small>
            </th>
            <td />
            <td />
            <td />
            {downloadOf(manifest.key)}
          </tr>
        )}
      </ScrolledTable>
      {download.failure && <Failure failure={download.failure} />}
    </>
  );
}
