package dlq

import "sync"

// groupCommit lets many writers share the syncs of a folder. A caller is
// answered by a sync that began after it called, never by one that was already
// running and may have missed its rename.
type groupCommit struct {
	sync func(folder string) error

	mu      sync.Mutex
	folders map[string]*commits
}

type commits struct {
	running *commit // Nil when no sync is under way.
	waiting *commit // Nil when nobody waits for the next one.
}

type commit struct {
	done chan struct{}
	err  error // Set before done is closed.
}

func newGroupCommit(sync func(string) error) *groupCommit {
	return &groupCommit{sync: sync, folders: map[string]*commits{}}
}

// commit returns when every rename that the caller did in the folder is durable.
func (g *groupCommit) commit(folder string) error {
	g.mu.Lock()
	f := g.folders[folder]
	if f == nil {
		f = &commits{}
		g.folders[folder] = f
	}
	if c := f.waiting; c != nil {
		g.mu.Unlock()
		<-c.done
		return c.err
	}
	c := &commit{done: make(chan struct{})}
	f.waiting = c
	before := f.running
	g.mu.Unlock()

	if before != nil {
		<-before.done // Meanwhile others join this commit.
	}

	g.mu.Lock()
	f.waiting, f.running = nil, c
	g.mu.Unlock()

	c.err = g.sync(folder)

	g.mu.Lock()
	if f.running == c {
		f.running = nil
	}
	g.mu.Unlock()
	close(c.done)
	return c.err
}
