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

// pollInterval is how often directories are looked at. They hold a few small files, so that costs less than it would to find
// out which of the ways in which they change a watch misses.
const pollInterval = 2 * time.Second

// dataLink is the link that kubelets put into mounted Secrets: it leads to a directory with all entries of one version, and is
// replaced as a whole. Directories of ours are made in the same way, so no reader has a certificate with the key of another.
const dataLink = "..data"

// Directory keeps an authority's files in a directory. Those that the control plane has made it may replace; what somebody else
// put there, without dataLink or into a mounted Secret, is only read.
type Directory struct {
	Path string
	// ReadOnly is for what operators bring: nothing is ever made there.
	ReadOnly bool
	// Poll is how often it is looked at; 0: every two seconds.
	Poll time.Duration
}

var _ Home = Directory{}

// String gives the path.
func (d Directory) String() string { return d.Path }

// Load reads the files. The version is a hash of what is in them.
func (d Directory) Load(ctx context.Context) (Files, string, error) {
	for {
		before, _ := os.Readlink(filepath.Join(d.Path, dataLink)) // "": there is none
		f, version, err := d.read(filepath.Join(d.Path, before))
		// While it was read somebody may have made or turned the link: then some of the files were those, and some others.
		if after, _ := os.Readlink(filepath.Join(d.Path, dataLink)); after == before || ctx.Err() != nil {
			return f, version, err
		}
	}
}

// read reads the files of a directory.
func (d Directory) read(dir string) (Files, string, error) {
	var failed error
	hash := sha256.New()
	f, err := filesOf(func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = cmp.Or(failed, err)
		}
		_, _ = fmt.Fprintf(hash, "%s %d\n%s", name, len(text), text) // a hash takes everything
		return text
	})
	if failed != nil {
		return Files{}, "", fmt.Errorf("read the authority in %q: %w", d.Path, failed)
	}
	if err != nil {
		return Files{}, "", err
	}
	return f, hex.EncodeToString(hash.Sum(nil)), nil
}

// Store writes the files into a new directory and then turns the link to it.
func (d Directory) Store(ctx context.Context, f Files, version string) error {
	if d.ReadOnly {
		return errReadOnly
	}
	link := filepath.Join(d.Path, dataLink)
	if _, err := os.Lstat(link); version != "" && err != nil {
		return errReadOnly // there is an authority, and it is not of our making
	}
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		return fmt.Errorf("make a directory for the authority: %w", err)
	}
	next, err := os.MkdirTemp(d.Path, "..")
	if err != nil {
		return fmt.Errorf("make a directory for the authority: %w", err)
	}
	if err := d.fill(next, f); err != nil {
		_ = os.RemoveAll(next) // the error says more
		return err
	}
	if err := d.turn(ctx, link, filepath.Base(next), version); err != nil {
		_ = os.RemoveAll(next) // as above
		return err
	}
	return d.name(f)
}

func (Directory) fill(dir string, f Files) error {
	for name, text := range f.entries() {
		if err := writeFile(filepath.Join(dir, name), text); err != nil {
			return fmt.Errorf("write the authority: %w", err)
		}
	}
	return nil
}

// turn makes the link lead to another directory. The first link is made, which fails if somebody was faster; later ones are
// renamed over it.
func (d Directory) turn(ctx context.Context, link, to, version string) error {
	if version == "" {
		switch err := os.Symlink(to, link); {
		case errors.Is(err, fs.ErrExist):
			return errConflict
		case err != nil:
			return fmt.Errorf("write the authority: %w", err)
		}
		return nil
	}
	if _, now, err := d.Load(ctx); err != nil || now != version {
		return errConflict
	}
	old, err := os.Readlink(link)
	if err != nil {
		return fmt.Errorf("write the authority: %w", err)
	}
	swap := filepath.Join(d.Path, to+".link")
	if err := os.Symlink(to, swap); err != nil {
		return fmt.Errorf("write the authority: %w", err)
	}
	if err := os.Rename(swap, link); err != nil {
		return fmt.Errorf("write the authority: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(d.Path, filepath.Base(old))); err != nil {
		return fmt.Errorf("remove the authority before this one: %w", err)
	}
	return nil
}

// name makes the files visible under their names, which lead through the link.
func (d Directory) name(f Files) error {
	for name := range f.entries() {
		err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(d.Path, name))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("write the authority: %w", err)
		}
	}
	return nil
}

// writeFile writes a file for nobody else's eyes, to the disk.
func writeFile(name string, text []byte) error {
	w, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return errors.Join(err, w.Sync(), w.Close())
}

// Watch looks at the directory from time to time. What it finds must be the same twice: who writes several files does so one after
// the other, and in between they may fit together and mean something else, as half of the roots do.
func (d Directory) Watch(ctx context.Context, changed func()) error {
	t := time.NewTicker(cmp.Or(d.Poll, pollInterval))
	defer t.Stop()
	last, told := "", ""
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
		if now == last && now != told {
			told = now
			changed()
		}
		last = now
	}
}
