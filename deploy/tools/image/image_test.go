package main

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/stretchr/testify/require"
)

const nonroot = 65532

var testRecipe = recipe{
	root: "../../..", platform: v1.Platform{OS: "linux", Architecture: runtime.GOARCH},
	args: map[string]string{"VERSION": "v1.2.3", "COMMIT": "abc1234"}, created: time.Unix(1700000000, 0).UTC(),
}

func TestImageIsWhatTheDockerfileSays(t *testing.T) {
	image, err := testRecipe.build(t.Context())
	require.NoError(t, err)
	file, err := image.ConfigFile()
	require.NoError(t, err)
	config := file.Config
	require.Equal(t, "65532:65532", config.User, "never root, and a number, which Kubernetes can tell from root")
	require.Equal(t, []string{"/ocr-proxy"}, config.Entrypoint)
	require.Equal(t, []string{"serve", "--config", "/etc/ocr-proxy/config.yaml"}, config.Cmd)
	require.Equal(t, []string{"CMD", "/ocr-proxy", "health"}, config.Healthcheck.Test)
	require.Equal(t, "v1.2.3", config.Labels["org.opencontainers.image.version"])
	require.Equal(t, "abc1234", config.Labels["org.opencontainers.image.revision"])
	require.Contains(t, config.Volumes, config.WorkingDir, "what is written relative to the working directory lies in the volume")
	require.Equal(t, []string{"TMPDIR=" + config.WorkingDir + "/spool"}, config.Env)

	root := t.TempDir()
	headers := unpack(t, image, root)
	names := make([]string, 0, len(headers))
	for name, h := range headers {
		names = append(names, name)
		require.Equal(t, testRecipe.created, h.ModTime.UTC(), name)
		if name == "var/lib/ocr-proxy/" {
			require.Equal(t, [2]int{nonroot, nonroot}, [2]int{h.Uid, h.Gid}, name)
			continue
		}
		require.Equal(t, [2]int{0, 0}, [2]int{h.Uid, h.Gid}, "%s could be changed by the process", name)
		require.Zero(t, h.Mode&0o022, "%s could be changed by the process", name)
	}
	require.ElementsMatch(t, []string{
		"LICENSE", "etc/", "etc/passwd", "etc/ssl/", "etc/ssl/certs/", "etc/ssl/certs/ca-certificates.crt",
		"ocr-proxy", "var/", "var/lib/", "var/lib/ocr-proxy/",
	}, names, "no shell, no package manager, nothing else")

	again, err := testRecipe.build(t.Context())
	require.NoError(t, err)
	first, err := image.Digest()
	require.NoError(t, err)
	second, err := again.Digest()
	require.NoError(t, err)
	require.Equal(t, first, second, "two builds are the same image")

	binary := filepath.Join(root, "ocr-proxy")
	requireStatic(t, binary)
	requireNoFolder(t, binary)
	t.Run("runs as the user of the image", func(t *testing.T) { runInside(t, root, config) })
}

// unpack writes the image's files below a folder, with their owners where this process may.
func unpack(t *testing.T, image v1.Image, root string) map[string]*tar.Header {
	t.Helper()
	layers, err := image.Layers()
	require.NoError(t, err)
	headers := map[string]*tar.Header{}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		require.NoError(t, err)
		for archive := tar.NewReader(content); ; {
			h, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			headers[h.Name] = h
			path := filepath.Join(root, h.Name)
			if h.Typeflag == tar.TypeDir {
				require.NoError(t, os.MkdirAll(path, h.FileInfo().Mode().Perm()))
			} else {
				text, err := io.ReadAll(archive)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path, text, h.FileInfo().Mode().Perm()))
			}
			if os.Getuid() == 0 {
				require.NoError(t, os.Chown(path, h.Uid, h.Gid))
			}
		}
		require.NoError(t, content.Close())
	}
	return headers
}

func requireStatic(t *testing.T, binary string) {
	t.Helper()
	file, err := elf.Open(binary)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	for _, p := range file.Progs {
		require.NotContains(t, []elf.ProgType{elf.PT_INTERP, elf.PT_DYNAMIC}, p.Type, "the binary wants a library that the image has not")
	}
}

func requireNoFolder(t *testing.T, binary string) {
	t.Helper()
	info, err := buildinfo.ReadFile(binary)
	require.NoError(t, err)
	for _, s := range info.Settings {
		require.False(t, strings.HasPrefix(s.Key, "vcs"), "%s depends on the checkout", s.Key)
	}
	text, err := os.ReadFile(binary)
	require.NoError(t, err)
	folder, err := filepath.Abs(testRecipe.root)
	require.NoError(t, err)
	require.NotContains(t, string(text), folder+"/cmd", "the folder of the build is in the binary")
}

// runInside starts the image's command in a file system that is nothing but the image, as its user, for whom all of it but the volume is read-only.
func runInside(t *testing.T, root string, config v1.Config) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may change the root folder")
	}
	// The test's own folders are closed to others, and the user of the image has to come from the root down.
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	admin, worker := freePort(t), freePort(t)
	require.NoError(t, os.Mkdir(filepath.Join(root, "etc/ocr-proxy"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/ocr-proxy/config.yaml"), fmt.Appendf(nil, `
admin: {listen: 127.0.0.1:%d}
retry: {max_attempts: 1}
providers:
  - {name: engine, kind: generic, listen: 127.0.0.1:%d, upstream: http://127.0.0.1:9, auth: {type: none}}
`, admin, worker), 0o644))
	inside := func(ctx context.Context, arguments ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, config.Entrypoint[0], arguments...)
		cmd.Dir, cmd.Env = config.WorkingDir, config.Env
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: nonroot, Gid: nonroot}}
		return cmd
	}
	told, err := inside(t.Context(), "version").CombinedOutput()
	require.NoError(t, err, string(told))
	require.Contains(t, string(told), "ocr-proxy v1.2.3 (commit abc1234, ")

	var log bytes.Buffer
	serve := inside(t.Context(), config.Cmd...)
	serve.Stderr = &log
	require.NoError(t, serve.Start())
	defer func() { _ = serve.Process.Kill() }()
	health := func() error {
		out, err := inside(t.Context(), append(config.Healthcheck.Test[2:], "--config", config.Cmd[2])...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	require.Eventually(t, func() bool { return health() == nil }, time.Minute, 50*time.Millisecond, "HEALTHCHECK: %s", &log)

	answer, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d/", worker), "image/png", strings.NewReader("a page"))
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	letter := answer.Header.Get("Ocr-Proxy-Dead-Letter-Id")
	require.NotEmpty(t, letter, "nobody listens there, so there must be a letter")
	require.FileExists(t, filepath.Join(root, config.WorkingDir, "dead-letters/open", letter+".json"))

	require.NoError(t, serve.Process.Signal(syscall.SIGTERM))
	require.NoError(t, serve.Wait(), "%s", &log)
	require.Error(t, health(), "nobody is there any more")
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// The flags that make a build repeatable stand in two files; this keeps them the same.
func TestDockerfileBuildsAsTheMakefileDoes(t *testing.T) {
	builds, _, err := parse(testRecipe.root)
	require.NoError(t, err)
	makefile, err := os.ReadFile(filepath.Join(testRecipe.root, "Makefile"))
	require.NoError(t, err)
	const flags = "-trimpath -buildvcs=false"
	require.Contains(t, string(makefile), "REPEATABLE := "+flags+"\n")
	found := false
	for _, command := range builds.Commands {
		if c, ok := command.(*instructions.RunCommand); ok && strings.Contains(c.String(), "go build") {
			found = true
			require.Contains(t, c.String(), "CGO_ENABLED=0")
			require.Contains(t, c.String(), "go build "+flags+` -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT"`)
		}
	}
	require.True(t, found)
}

// What this program does not know, it must not pass over.
func TestUnknownInstructionsAreRefused(t *testing.T) {
	original, err := os.ReadFile(filepath.Join(testRecipe.root, "Dockerfile"))
	require.NoError(t, err)
	for _, c := range []struct{ name, old, new, want string }{
		{"instruction", "USER 65532:65532\n", "STOPSIGNAL SIGINT\n", "does not know the instruction"},
		{"shell", `ENTRYPOINT ["/ocr-proxy"]`, "ENTRYPOINT /ocr-proxy", "shell"},
		{"base", "FROM scratch", "FROM alpine:latest", "scratch"},
		{"warning", " AS build", " as build", "FromAsCasing"},
		{"mistake", "WORKDIR /var/lib/ocr-proxy", "WORKDIR", "WORKDIR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			broken := testRecipe
			broken.root = t.TempDir()
			text := strings.Replace(string(original), c.old, c.new, 1)
			require.NotEqual(t, string(original), text)
			require.NoError(t, os.WriteFile(filepath.Join(broken.root, "Dockerfile"), []byte(text), 0o600))
			_, final, err := parse(broken.root)
			for _, command := range final.Commands {
				if _, copies := command.(*instructions.CopyCommand); err == nil && !copies {
					err = broken.apply(command, &v1.Config{}, newTree(broken.created), workshop{})
				}
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
