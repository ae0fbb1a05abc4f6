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

// maxFiles bounds the number of watched file secrets. It is far above what any proxy requests and
// low enough to bound the cost of a faulty client.
const maxFiles = 1000

// Files reads secrets from files and puts them into Store. It watches the secrets passed to Run,
// and secrets with a file name ("file-cert:CHAIN~KEY", "file-root:ROOTS") once a client has
// requested them.
type Files struct {
	Store *Store
	// CRLPaths are the files that may hold certificate revocation lists for the mesh's roots. They
	// need not exist yet.
	CRLPaths []string
	Watch    watch.Options
	Log      *slog.Logger
	// OnFailure is called each time a file cannot be used.
	OnFailure func()

	once      sync.Once
	requested chan string
}

// requestChan returns the channel from WatchIfFile to Run, which the first call creates.
func (f *Files) requestChan() chan string {
	f.once.Do(func() { f.requested = make(chan string) })
	return f.requested
}

// WatchIfFile reports whether name names a file secret, and starts watching its files if it does.
// It blocks until Run has received the name or ctx has ended, and returns true in both cases.
func (f *Files) WatchIfFile(ctx context.Context, name string) bool {
	_, _, certificate := mesh.ParseFileCertificate(name)
	_, roots := mesh.ParseFileRoots(name)
	if !certificate && !roots {
		return false
	}
	select {
	case f.requestChan() <- name:
	case <-ctx.Done():
	}
	return true
}

// FileSecret names the files of one secret: either Chain and Key, or Roots.
type FileSecret struct {
	Name              string
	Chain, Key, Roots string
}

// Run watches the secrets in always, the revocation lists and all secrets requested by WatchIfFile
// until ctx ends. It watches at most maxFiles requested secrets. Further ones are reported as
// failures and ignored. It returns nil once all watches have ended.
func (f *Files) Run(ctx context.Context, always ...FileSecret) error {
	var all sync.WaitGroup
	defer all.Wait()
	for _, n := range always {
		all.Go(func() { f.watchSecret(ctx, n) })
	}
	quiet := f.Watch
	quiet.Logger = nil // most meshes have no revocation list: a missing file is not worth a log line
	for _, path := range f.CRLPaths {
		all.Go(func() { watch.File(ctx, path, quiet, f.updateCRLs) })
	}
	watched := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case name := <-f.requestChan():
			if watched[name] {
				continue
			}
			if len(watched) == maxFiles {
				f.reportFailure(name, fmt.Errorf("limit of %d watched file secrets reached", maxFiles))
				continue
			}
			watched[name] = true
			all.Go(func() { f.watchSecret(ctx, parseFileSecret(name)) })
		}
	}
}

// parseFileSecret returns the files of a name that mesh.ParseFileCertificate or mesh.ParseFileRoots
// accepts. The operating system's roots are replaced by the path of SystemRoots.
func parseFileSecret(name string) FileSecret {
	if chain, key, ok := mesh.ParseFileCertificate(name); ok {
		return FileSecret{Name: name, Chain: chain, Key: key}
	}
	roots, _ := mesh.ParseFileRoots(name)
	if roots == mesh.SystemRoots {
		roots = SystemRoots()
	}
	return FileSecret{Name: name, Roots: roots}
}

// SystemRoots returns the path of the operating system's root certificates: the first of the usual
// paths that exists, or Debian's if none does.
func SystemRoots() string {
	for _, path := range []string{
		mesh.DebianRoots, "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
	} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return mesh.DebianRoots
}

// watchSecret watches the files of a certificate or of roots until ctx ends, and stores the secret.
func (f *Files) watchSecret(ctx context.Context, n FileSecret) {
	if n.Chain != "" {
		f.watchKeyPair(ctx, n)
		return
	}
	f.watchFiles(ctx, n.Name, n.Roots, "", func(roots, _ []byte) (Secret, error) { return ParseRoots(roots) })
}

// updateCRLs stores new revocation lists and logs that. Invalid ones are only reported as a
// failure: Envoy would reject the roots along with them, and then trust no peer.
func (f *Files) updateCRLs(lists []byte) {
	if err := validateCRLs(lists); err != nil {
		f.reportFailure(RootsName, fmt.Errorf("certificate revocation lists: %w", err))
		return
	}
	f.Log.Info("certificate revocation lists read from file")
	f.Store.SetCRLs(lists)
}

// watchKeyPair watches a certificate and its key until ctx ends, and stores them. The two files are
// written one after the other, so the last secret is kept until both match; a mismatch is reported
// as a failure.
func (f *Files) watchKeyPair(ctx context.Context, n FileSecret) {
	f.watchFiles(ctx, n.Name, n.Chain, n.Key, func(chain, key []byte) (Secret, error) {
		if key == nil {
			return Secret{}, nil
		}
		return ParseKeyPair(chain, key)
	})
}

// watchFiles watches two files, until ctx ends, and stores the secret that parse makes of them
// whenever one changes. A file that disappears keeps its last content. second may be ""; parse gets
// nil for it, and until that file has been read. Nothing is stored until the first file has been
// read, if parse fails, which is reported, or if it returns an empty Secret.
func (f *Files) watchFiles(
	ctx context.Context, name, first, second string, parse func(first, second []byte) (Secret, error),
) {
	var mu sync.Mutex
	contents := [2][]byte{}
	changed := func(i int, content []byte) {
		mu.Lock()
		defer mu.Unlock()
		contents[i] = content
		if contents[0] == nil {
			return
		}
		s, err := parse(contents[0], contents[1])
		switch {
		case err != nil:
			f.reportFailure(name, err)
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

// reportFailure counts and logs that the files of the secret name cannot be used. Its last good
// version stays.
func (f *Files) reportFailure(name string, err error) {
	f.OnFailure()
	f.Log.Warn("cannot use the files of a secret, keeping the last good version", "name", name, "error", err)
}
