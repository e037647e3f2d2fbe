# syntax=docker/dockerfile:1
# A static binary in an empty image: no shell, no package manager, no root.
#   docker build --build-arg VERSION=$(git describe --tags --always) --build-arg COMMIT=$(git rev-parse --short HEAD) -t ocr-proxy .

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG COMMIT=unknown
ARG TARGETOS
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT" -o /out/ocr-proxy ./cmd/ocr-proxy
# The empty image has no mkdir: what it needs is made here.
RUN mkdir -p /out/state && echo 'nonroot:x:65532:65532::/var/lib/ocr-proxy:/nonexistent' > /out/passwd

FROM scratch
ARG VERSION=dev
ARG COMMIT=unknown
LABEL org.opencontainers.image.title=ocr-proxy org.opencontainers.image.version=$VERSION org.opencontainers.image.revision=$COMMIT org.opencontainers.image.licenses=Apache-2.0
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/passwd /etc/passwd
COPY LICENSE /LICENSE
COPY --from=build /out/ocr-proxy /ocr-proxy
COPY --from=build --chown=65532:65532 /out/state /var/lib/ocr-proxy
# The default places of dead letters (./dead-letters) and of large bodies (the temp folder) are both in the volume. The configuration decides.
WORKDIR /var/lib/ocr-proxy
ENV TMPDIR=/var/lib/ocr-proxy/spool
VOLUME /var/lib/ocr-proxy
USER 65532:65532
# Asks the admin listener at its default port; with another one add "--config", "/etc/ocr-proxy/config.yaml".
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s CMD ["/ocr-proxy", "health"]
ENTRYPOINT ["/ocr-proxy"]
CMD ["serve", "--config", "/etc/ocr-proxy/config.yaml"]
