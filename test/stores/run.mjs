import { runnerImport } from 'vite';

// npm run test:stores [-- ceph | swift]. Node 20 cannot run TypeScript; Vite loads it.
const { module } = await runnerImport(new URL('run.ts', import.meta.url).pathname, {
  configFile: false,
});
process.exitCode = await module.run(process.argv.slice(2));
