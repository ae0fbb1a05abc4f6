package ca

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// pollInterval is the default time between reads of a directory. Polling a few small files is
// cheaper than handling all the ways in which a file watch misses changes.
const pollInterval = 2 * time.Second

// dataLink is the symbolic link that kubelets create in mounted Secrets. It points to a directory
// with all entries of one version and is replaced atomically. FileStore writes the same layout, so
// that no reader combines a certificate with another version's key.
const dataLink = "..data"

// FileStore is a KeyStore in a directory. It replaces only files that it wrote itself: Store
// returns errReadOnly for existing files without dataLink.
type FileStore struct {
	Path string
	// ReadOnly makes Store return errReadOnly; it is set for directories that operators provide.
	ReadOnly bool
	// PollInterval is the time between reads by Watch (default 2 s).
	PollInterval time.Duration
}

var _ KeyStore = FileStore{}

// String returns the path.
func (d FileStore) String() string { return d.Path }

// Load returns the files, with a hash of their content as version, or errNoAuthority if there is no
// key. It retries until dataLink points to the same directory before and after the read, or ctx
// ends. Without the link the files are read from Path itself.
func (d FileStore) Load(ctx context.Context) (Files, string, error) {
	for {
		before, _ := os.Readlink(filepath.Join(d.Path, dataLink)) // "" if there is no link
		f, version, err := d.readFiles(filepath.Join(d.Path, before))
		// If the link was created or switched during the read, the files may be of two versions.
		if after, _ := os.Readlink(filepath.Join(d.Path, dataLink)); after == before || ctx.Err() != nil {
			return f, version, err
		}
	}
}

// readFiles returns the files in dir and a hash of all of them. Missing files are empty. It returns
// errNoAuthority if there is no key, and another error if a file cannot be read.
func (d FileStore) readFiles(dir string) (Files, string, error) {
	var failed error
	hash := sha256.New()
	f, err := filesFrom(func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = cmp.Or(failed, err)
		}
		_, _ = fmt.Fprintf(hash, "%s %d\n%s", name, len(text), text) // a hash takes everything
		return text
	})
	if failed != nil {
		return Files{}, "", fmt.Errorf("read the authority's files in %q: %w", d.Path, failed)
	}
	if err != nil {
		return Files{}, "", err
	}
	return f, hex.EncodeToString(hash.Sum(nil)), nil
}

// Store writes the files into a new directory and switches dataLink to it. It returns errReadOnly
// if the store is read-only, or an operator wrote the files: version is not "" and there is no
// dataLink. It returns errConflict if another version is stored. If only the links of the file
// names to dataLink cannot be made, or the previous version cannot be removed, it returns an error
// although the files are stored.
func (d FileStore) Store(ctx context.Context, f Files, version string) error {
	if d.ReadOnly {
		return errReadOnly
	}
	link := filepath.Join(d.Path, dataLink)
	if _, err := os.Lstat(link); version != "" && err != nil {
		return errReadOnly // an operator's files
	}
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		return fmt.Errorf("create the directory of the authority's files: %w", err)
	}
	next, err := os.MkdirTemp(d.Path, "..")
	if err != nil {
		return fmt.Errorf("create the directory of the authority's files: %w", err)
	}
	if err := d.writeFiles(next, f); err != nil {
		_ = os.RemoveAll(next) // the first error is the relevant one
		return err
	}
	old, err := d.switchLink(ctx, link, filepath.Base(next), version)
	if err != nil {
		_ = os.RemoveAll(next) // as above
		return err
	}
	if err := d.linkFiles(f); err != nil || old == "" {
		return err
	}
	if err := os.RemoveAll(filepath.Join(d.Path, filepath.Base(old))); err != nil {
		return fmt.Errorf("remove the authority's previous files: %w", err)
	}
	return nil
}

// writeFiles creates the authority's files in dir. It returns an error if one of them exists.
func (FileStore) writeFiles(dir string, f Files) error {
	for name, text := range f.entries() {
		if err := writeFile(filepath.Join(dir, name), text); err != nil {
			return fmt.Errorf("write the authority's files: %w", err)
		}
	}
	return nil
}

// switchLink makes dataLink, at the path link, point to the directory to, and returns the former
// target, "" if there was none. After an error dataLink is unchanged. It returns errConflict if
// version is "" and the link exists, or if the stored version is not version or cannot be read. An
// existing link is replaced by a rename.
func (d FileStore) switchLink(ctx context.Context, link, to, version string) (old string, err error) {
	if version == "" {
		switch err := os.Symlink(to, link); {
		case errors.Is(err, fs.ErrExist):
			return "", errConflict
		case err != nil:
			return "", fmt.Errorf("write the authority's files: %w", err)
		}
		return "", nil
	}
	if _, now, err := d.Load(ctx); err != nil || now != version {
		return "", errConflict
	}
	if old, err = os.Readlink(link); err != nil {
		return "", fmt.Errorf("write the authority's files: %w", err)
	}
	swap := filepath.Join(d.Path, to+".link")
	if err := os.Symlink(to, swap); err != nil {
		return "", fmt.Errorf("write the authority's files: %w", err)
	}
	if err := os.Rename(swap, link); err != nil {
		return "", fmt.Errorf("write the authority's files: %w", err)
	}
	return old, nil
}

// linkFiles creates a symbolic link through dataLink for each file, as kubelets do. Existing links
// or files of these names stay.
func (d FileStore) linkFiles(f Files) error {
	for name := range f.entries() {
		err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(d.Path, name))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("write the authority's files: %w", err)
		}
	}
	return nil
}

// writeFile creates a file with mode 0600 and syncs it to disk. It returns an error if the file
// exists.
func writeFile(name string, text []byte) error {
	w, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return errors.Join(err, w.Sync(), w.Close())
}

// Watch polls the directory, by default every 2 s, until ctx ends, and then returns nil. It calls
// changed if the content or the read error differs from the one last reported; the first one is
// also reported. A difference must be the same in two polls. An operator who copies several files
// may leave a valid but incomplete set in between.
func (d FileStore) Watch(ctx context.Context, changed func()) error {
	t := time.NewTicker(cmp.Or(d.PollInterval, pollInterval))
	defer t.Stop()
	last, reported := "", ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		_, now, err := d.Load(ctx)
		if err != nil {
			now = err.Error()
		}
		if now == last && now != reported {
			reported = now
			changed()
		}
		last = now
	}
}
