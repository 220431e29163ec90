-- Webhooks in the formats of Microsoft Teams, Discord and PagerDuty. The new check allows all that the old one did.
-- Contracts: 0.1.0 stopped using the check of two formats
alter table notification_targets drop constraint notification_targets_format_check;
alter table notification_targets add constraint notification_targets_format_check
  check (format in ('json', 'slack', 'teams', 'discord', 'pagerduty'));
