// Command image carries out the project's Dockerfile without a container engine and writes what docker build would: an archive that docker load,
// podman load, ctr images import and kind load take.
//
// It knows the instructions that this Dockerfile uses and refuses every other one, so that it cannot silently make another image. Two things are not
// as in docker build: the Go toolchain and the certificate authorities are those of this machine, in the place of those of the build stage's image.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// recipe is what decides about an image.
type recipe struct {
	root     string            // folder of the project
	platform v1.Platform       // for which the binary is built
	args     map[string]string // the build's arguments
	created  time.Time         // the date of everything in the image
}

func run(ctx context.Context, arguments []string, out io.Writer) error {
	r := recipe{args: map[string]string{}, created: time.Unix(0, 0).UTC()}
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	file := flags.String("out", "ocr-proxy.tar", "archive to write")
	tag := flags.String("tag", "ocr-proxy:latest", "name of the image in it")
	platform := flags.String("platform", "linux/"+runtime.GOARCH, "os/architecture")
	flags.StringVar(&r.root, "root", ".", "folder of the project")
	flags.Func("build-arg", "NAME=VALUE, as for docker build", func(text string) error {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("NAME=VALUE is expected")
		}
		r.args[key] = value
		return nil
	})
	flags.Func("created", "date of everything in the image, in seconds since 1970, so that two builds of one commit are the same", func(text string) error {
		seconds, err := strconv.ParseInt(text, 10, 64)
		r.created = time.Unix(seconds, 0).UTC()
		return err
	})
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	parsed, err := v1.ParsePlatform(*platform)
	if err != nil {
		return err
	}
	r.platform = *parsed
	ref, err := name.NewTag(*tag)
	if err != nil {
		return err
	}
	image, err := r.build(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(*file), 0o755); err != nil { //nolint:gosec // an image is for everybody
		return err
	}
	if err := tarball.WriteToFile(*file, ref, image); err != nil {
		return err
	}
	return report(out, image, *file, *tag)
}

// report says what came out, and how large it is.
func report(out io.Writer, image v1.Image, file, tag string) error {
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	var compressed, plain int64
	for _, layer := range layers {
		size, err := layer.Size()
		if err != nil {
			return err
		}
		compressed += size
		content, err := layer.Uncompressed()
		if err != nil {
			return err
		}
		size, err = io.Copy(io.Discard, content)
		if err := errors.Join(err, content.Close()); err != nil {
			return err
		}
		plain += size
	}
	_, err = fmt.Fprintf(out, "%s: %s, %s, %.1f MB compressed, %.1f MB on disk\n", file, tag, digest, float64(compressed)/1e6, float64(plain)/1e6)
	return err
}
