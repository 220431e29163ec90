import { useConsole } from '../console-context.ts';
import { TargetList } from '../parts/target-list.tsx';
import { projectEvents } from '../target-events.ts';

/** Who is notified of the project's changes, and what was sent to them. */
export function NotificationsPage() {
  const { client, may } = useConsole();
  return (
    <TargetList
      targets={client.targets}
      mayWrite={may('batch_export:write')}
      events={projectEvents}
    >
      <p>
        A webhook, a Slack message or an e-mail says when an export fails, and when it works again.
      </p>
    </TargetList>
  );
}
