package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
)

// build carries out both stages.
func (r recipe) build(ctx context.Context) (v1.Image, error) {
	builds, final, err := parse(r.root)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "image-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	shop, err := r.carryOut(ctx, builds, folder)
	if err != nil {
		return nil, err
	}
	var config v1.Config
	files := newTree(r.created)
	for _, command := range final.Commands {
		if err := r.apply(command, &config, files, shop); err != nil {
			return nil, fmt.Errorf("%s: %w", command, err)
		}
	}
	layer, err := files.layer()
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: r.created}, CreatedBy: "Dockerfile, carried out by deploy/tools/image"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, r.describe(image, config))
}

// describe is the image's configuration file, with its layer already in it.
func (r recipe) describe(image v1.Image, config v1.Config) *v1.ConfigFile {
	file, err := image.ConfigFile()
	if err != nil {
		panic(err) // an image in memory has one
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant = r.platform.OS, r.platform.Architecture, r.platform.Variant
	file.Created = v1.Time{Time: r.created}
	file.Config = config
	return file
}

// apply carries out one instruction of the final stage.
func (r recipe) apply(command instructions.Command, config *v1.Config, files *tree, shop workshop) error {
	switch c := command.(type) {
	case *instructions.CopyCommand:
		owner, err := ownerOf(c.Chown)
		if err != nil {
			return err
		}
		for _, source := range c.SourcePaths {
			from := filepath.Join(r.root, source)
			if c.From != "" {
				from = shop.path(source)
			}
			if err := files.copy(from, c.DestPath, owner); err != nil {
				return err
			}
		}
	case *instructions.WorkdirCommand:
		config.WorkingDir = c.Path
	case *instructions.EnvCommand:
		for _, e := range c.Env {
			config.Env = append(config.Env, e.String())
		}
	case *instructions.VolumeCommand:
		config.Volumes = map[string]struct{}{}
		for _, v := range c.Volumes {
			config.Volumes[v] = struct{}{}
		}
	case *instructions.UserCommand:
		config.User = c.User
	case *instructions.ArgCommand:
		// Its value is looked up where it is used.
	case *instructions.LabelCommand:
		config.Labels = map[string]string{}
		for _, l := range c.Labels {
			config.Labels[l.Key] = os.Expand(l.Value, func(name string) string { return r.args[name] })
		}
	case *instructions.HealthCheckCommand:
		h := c.Health
		config.Healthcheck = &v1.HealthConfig{Test: h.Test, Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, Retries: h.Retries}
	case *instructions.EntrypointCommand:
		config.Entrypoint = c.CmdLine
		return exact(c.PrependShell)
	case *instructions.CmdCommand:
		config.Cmd = c.CmdLine
		return exact(c.PrependShell)
	default:
		return errors.New("this program does not know the instruction in the final stage")
	}
	return nil
}

// exact refuses commands for a shell, because the image has none.
func exact(shell bool) error {
	if shell {
		return errors.New("the image has no shell: write the command as a list")
	}
	return nil
}
