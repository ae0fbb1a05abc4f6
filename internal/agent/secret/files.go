package secret

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/meshpilot/meshpilot/internal/base/watch"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// maxFiles bounds how many names of files are watched: more than any proxy has, and less than what hurts.
const maxFiles = 1000

// Files has secrets that are files: those of names that say so ("file-cert:CHAIN~KEY", "file-root:ROOTS"), once somebody
// wants them, and those that are given names.
type Files struct {
	Store *Store
	// Revoked are the places where a file with lists of revoked certificates may be, or come to be, that goes with the mesh's roots.
	Revoked []string
	Watch   watch.Options
	Log     *slog.Logger
	// Failed is told of files that cannot be used.
	Failed func()

	once   sync.Once
	wanted chan string
}

func (f *Files) requests() chan string {
	f.once.Do(func() { f.wanted = make(chan string) })
	return f.wanted
}

// Want has the files of a name watched, if it is one of files, and says whether it is. It returns when Run knows of it.
func (f *Files) Want(ctx context.Context, name string) bool {
	_, _, certificate := mesh.ParseFileCertificate(name)
	_, roots := mesh.ParseFileRoots(name)
	if !certificate && !roots {
		return false
	}
	select {
	case f.requests() <- name:
	case <-ctx.Done():
	}
	return true
}

// Named is a secret of files with a name of its own: a certificate, or roots.
type Named struct{ Name, Chain, Key, Roots string }

// Run watches those files, and the ones that are wanted, until the context ends.
func (f *Files) Run(ctx context.Context, always ...Named) error {
	var all sync.WaitGroup
	defer all.Wait()
	for _, n := range always {
		all.Go(func() { f.watch(ctx, n) })
	}
	quiet := f.Watch
	quiet.Logger = nil // most meshes have no such file
	for _, path := range f.Revoked {
		all.Go(func() { watch.File(ctx, path, quiet, f.revoke) })
	}
	watched := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case name := <-f.requests():
			if watched[name] {
				continue
			}
			if len(watched) == maxFiles {
				f.fail(name, fmt.Errorf("%d others are watched already", maxFiles))
				continue
			}
			watched[name] = true
			all.Go(func() { f.watch(ctx, named(name)) })
		}
	}
}

// named reads a name that stands for files.
func named(name string) Named {
	if chain, key, ok := mesh.ParseFileCertificate(name); ok {
		return Named{Name: name, Chain: chain, Key: key}
	}
	roots, _ := mesh.ParseFileRoots(name)
	if roots == mesh.SystemRoots {
		roots = SystemRoots()
	}
	return Named{Name: name, Roots: roots}
}

// SystemRoots returns the file of the operating system's authorities: the first of the usual places where one is, or else Debian's.
func SystemRoots() string {
	for _, path := range []string{mesh.DebianRoots, "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return mesh.DebianRoots
}

func (f *Files) watch(ctx context.Context, n Named) {
	if n.Chain != "" {
		f.pair(ctx, n)
		return
	}
	f.both(ctx, n.Name, n.Roots, "", func(roots, _ []byte) (Secret, error) { return Trust(roots) })
}

// revoke takes lists of revoked certificates. Envoy would refuse the roots with wrong ones, and then know nobody.
func (f *Files) revoke(lists []byte) {
	if err := checkRevoked(lists); err != nil {
		f.fail(Roots, fmt.Errorf("lists of revoked certificates: %w", err))
		return
	}
	f.Log.Info("lists of revoked certificates read")
	f.Store.Revoke(lists)
}

// pair watches a certificate and its key. They are written one after the other: until both are of one pair the last one stays.
func (f *Files) pair(ctx context.Context, n Named) {
	f.both(ctx, n.Name, n.Chain, n.Key, func(chain, key []byte) (Secret, error) {
		if key == nil {
			return Secret{}, nil
		}
		return Pair(chain, key)
	})
}

// both watches two files, of which the second may be "", and makes a secret of them whenever one changes. An empty secret
// is none yet.
func (f *Files) both(ctx context.Context, name, first, second string, secretOf func(first, second []byte) (Secret, error)) {
	var mu sync.Mutex
	contents := [2][]byte{}
	changed := func(i int, content []byte) {
		mu.Lock()
		defer mu.Unlock()
		contents[i] = content
		if contents[0] == nil {
			return
		}
		s, err := secretOf(contents[0], contents[1])
		switch {
		case err != nil:
			f.fail(name, err)
		case s.Chain != nil || s.Roots != nil:
			f.Log.Info("secret read from files", "name", name, "expires", s.Expires)
			f.Store.Set(name, s)
		}
	}
	var all sync.WaitGroup
	for i, path := range []string{first, second} {
		if path != "" {
			all.Go(func() { watch.File(ctx, path, f.Watch, func(content []byte) { changed(i, content) }) })
		}
	}
	all.Wait()
}

func (f *Files) fail(name string, err error) {
	f.Failed()
	f.Log.Warn("the files of a secret cannot be used; what was read before stays", "name", name, "error", err)
}
