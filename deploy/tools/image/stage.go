package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// products is the only folder that the RUN lines of the build stage may write to, beside their working directory.
const products = "/out"

// workshop is the build stage on this machine.
type workshop struct {
	root    string   // folder of the project
	source  string   // what WORKDIR is
	out     string   // what /out is
	environ []string // of the RUN lines
}

// carryOut runs the build stage in a folder of its own, which is the caller's to remove.
func (r recipe) carryOut(ctx context.Context, stage instructions.Stage, folder string) (workshop, error) {
	w := workshop{
		root: r.root, source: filepath.Join(folder, "src"), out: filepath.Join(folder, "out"),
		environ: append(os.Environ(), "GOFLAGS=", "GOWORK=off",
			"TARGETOS="+r.platform.OS, "TARGETARCH="+r.platform.Architecture),
	}
	if err := sameGo(ctx, stage.BaseName); err != nil {
		return w, err
	}
	for _, dir := range []string{w.source, w.out} {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the modes are those of the image
			return w, err
		}
	}
	for _, command := range stage.Commands {
		var err error
		switch c := command.(type) {
		case *instructions.WorkdirCommand:
			// The folder of the sources, wherever it is.
		case *instructions.CopyCommand:
			err = w.take(c)
		case *instructions.ArgCommand:
			for _, arg := range c.Args {
				if value, ok := r.args[arg.Key]; ok {
					w.environ = append(w.environ, arg.Key+"="+value)
				} else if arg.Value != nil {
					w.environ = append(w.environ, arg.Key+"="+*arg.Value)
				}
			}
		case *instructions.RunCommand:
			err = w.run(ctx, c)
		default:
			err = errors.New("this program does not know the instruction in a build stage")
		}
		if err != nil {
			return w, fmt.Errorf("%s: %w", command, err)
		}
	}
	return w, nil
}

// sameGo refuses a toolchain of another version than the build stage's image has.
func sameGo(ctx context.Context, image string) error {
	version, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return err
	}
	wanted := strings.Replace(image, "golang:", "go", 1)
	if have := strings.TrimSpace(string(version)); have != wanted && !strings.HasPrefix(have, wanted+".") {
		return fmt.Errorf("the Dockerfile builds with %s, and this machine has %s", image, have)
	}
	return nil
}

func (w workshop) run(ctx context.Context, c *instructions.RunCommand) error {
	if !c.PrependShell || len(c.FlagsUsed) > 0 || len(c.Files) > 0 {
		return errors.New("this program knows plain RUN lines only")
	}
	line := strings.ReplaceAll(strings.Join(c.CmdLine, " "), " "+products+"/", " "+w.out+"/")
	cmd := exec.CommandContext(ctx, "sh", "-ec", line) //nolint:gosec // carrying out the Dockerfile is what this program is for
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.source, w.environ, os.Stderr, os.Stderr
	return cmd.Run()
}

// take copies from the project into the working directory what .dockerignore lets through.
func (w workshop) take(c *instructions.CopyCommand) error {
	if c.From != "" || c.Chown != "" || filepath.Clean(c.DestPath) != "." {
		return errors.New("this program knows copies from the project into the working directory only")
	}
	ignored, err := ignoredIn(w.root)
	if err != nil {
		return err
	}
	for _, source := range c.SourcePaths {
		err := fs.WalkDir(os.DirFS(w.root), filepath.Clean(source), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && (path == ".git" || path == "bin") { // ignored, and large
				return fs.SkipDir
			}
			if !entry.Type().IsRegular() {
				return nil
			}
			if skip, err := ignored.MatchesOrParentMatches(path); err != nil || skip {
				return err
			}
			return copyFile(filepath.Join(w.root, path), filepath.Join(w.source, path))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func ignoredIn(root string) (*patternmatcher.PatternMatcher, error) {
	file, err := os.Open(filepath.Join(root, ".dockerignore")) //nolint:gosec // reading the project is what this program is for
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	patterns, err := ignorefile.ReadAll(file)
	if err != nil {
		return nil, err
	}
	return patternmatcher.New(patterns)
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from) //nolint:gosec // reading the project is what this program is for
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // sources, as in a checkout
		return err
	}
	return os.WriteFile(to, content, 0o644) //nolint:gosec // sources, as in a checkout
}

// path is where a path of the build stage lies on this machine.
func (w workshop) path(inStage string) string {
	if below, ok := strings.CutPrefix(inStage, products); ok {
		return w.out + below
	}
	return inStage // of the image that the stage begins with: here this machine's
}
