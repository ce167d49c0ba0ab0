# syntax=docker/dockerfile:1

# The daemon and proxyctl as static programs on an image with nothing else: no shell, no package
# manager, CA certificates and a non-root user only.

FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY cmd cmd
COPY internal internal
COPY pkg pkg
ARG TARGETOS
ARG TARGETARCH
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -buildvcs=false -trimpath -ldflags='-s -w' -o /out/ ./cmd/...

FROM gcr.io/distroless/static-debian12:nonroot
LABEL org.opencontainers.image.title="sluice" \
      org.opencontainers.image.description="Multi-tenant RESP proxy in front of Redis, Valkey and Dragonfly" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/sluiced /out/proxyctl /usr/local/bin/
COPY deploy/container/sluiced.yaml /etc/sluice/sluiced.yaml
COPY LICENSE /usr/share/doc/sluice/LICENSE
USER 65532:65532
# 6380: clients. 8380: /metrics, /healthz, /readyz and the admin API, which proxyctl uses.
EXPOSE 6380 8380
# There is no HEALTHCHECK: it would run a program inside the image, and the image has neither
# a shell nor curl. Let whoever runs the container ask over HTTP on the admin port:
#   /healthz  200 as long as the process works; restart the container when it does not
#   /readyz   200 when every tenant's cluster can be served; send no clients otherwise
# deploy/kubernetes/sluice.yaml shows both as probes.
# SIGTERM drains: nothing new is accepted, what is in flight is finished. Allow more time than
# drain_timeout (30s) before killing, for example `docker stop --time 40`.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/sluiced"]
CMD ["serve", "--config", "/etc/sluice/sluiced.yaml"]
