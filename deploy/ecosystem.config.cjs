/**
 * For pm2: `npm run build`, then `pm2 start deploy/ecosystem.config.cjs`. Settings come from the environment, and from one
 * file for the API and the workers: .env beside package.json, as compose and systemd have one.
 */
const { existsSync } = require('node:fs');
const path = require('node:path');

const settings = path.resolve(__dirname, '../.env');
// What the environment has comes first.
if (existsSync(settings)) process.loadEnvFile(settings);

const both = {
  cwd: path.resolve(__dirname, '..'),
  exec_mode: 'fork',
  node_args: '--enable-source-maps',
  // Longer than SHUTDOWN_GRACE_SECONDS; SIGINT, which pm2 sends, ends a process as SIGTERM does.
  kill_timeout: 40_000,
  exp_backoff_restart_delay: 200,
};

module.exports = {
  apps: [
    { ...both, name: 'sluice-api', script: 'dist/main/api.js' },
    {
      ...both,
      name: 'sluice-worker',
      script: 'dist/main/worker.js',
      instances: 2,
      // The first worker answers on 9465, the next on 9466. 9464 is METRICS_PORT of the API.
      increment_var: 'WORKER_PORT',
      env: { WORKER_PORT: 9465 },
    },
  ],
};
