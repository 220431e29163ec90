import { useMemo } from 'react';
import { targetPaths } from '../targets-context.ts';
import { useConsole } from '../console-context.ts';
import { Loading } from '../parts/notice.tsx';
import { TargetList } from '../parts/target-list.tsx';
import { projectEvents } from '../target-events.ts';

/** Who is notified of the project's changes, and what was sent to them. */
export function NotificationsPage({ project }: { readonly project: string }) {
  const { api, may, me } = useConsole();
  const reach = useMemo(
    () =>
      me?.all_projects ? { projectId: Number(project), organization: me.organization.name } : null,
    [me, project],
  );
  if (me === null) return <Loading />;
  return (
    <TargetList
      api={api}
      base={targetPaths[reach ? 'organization' : 'project']}
      mayWrite={may('batch_export:write')}
      reach={reach}
      events={projectEvents}
    >
      <p>
        A webhook, a Slack message or an e-mail says when an export fails, and when it works again.
      </p>
    </TargetList>
  );
}
