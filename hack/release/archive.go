package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file, or with a target a symbolic link, of an archive or a layer of an image.
type entry struct {
	name string // with slashes, relative
	mode fs.FileMode
	// from is the file with the content. If it is empty, text is the content.
	from, text string
	target     string
}

// open returns the content and its size.
func (e entry) open() (io.ReadCloser, int64, error) {
	if e.from == "" {
		return io.NopCloser(strings.NewReader(e.text)), int64(len(e.text)), nil
	}
	f, err := os.Open(e.from)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// writeTar writes the entries in the order of their names, with their directories before them. All
// of them belong to root and have the same time.
func writeTar(w io.Writer, entries []entry, at time.Time) error {
	out := tar.NewWriter(w)
	seen := map[string]bool{".": true}
	for _, e := range sortEntries(entries) {
		for _, dir := range parents(e.name) {
			if seen[dir] {
				continue
			}
			seen[dir] = true
			header := &tar.Header{
				Typeflag: tar.TypeDir,
				Name:     dir + "/",
				Mode:     0o755,
				ModTime:  at,
			}
			if err := out.WriteHeader(header); err != nil {
				return err
			}
		}
		if err := writeTarEntry(out, e, at); err != nil {
			return err
		}
	}
	return out.Close()
}

// writeTarEntry writes one file or link.
func writeTarEntry(out *tar.Writer, e entry, at time.Time) error {
	if e.target != "" {
		return out.WriteHeader(&tar.Header{
			Typeflag: tar.TypeSymlink,
			Name:     e.name,
			Linkname: e.target,
			Mode:     0o777,
			ModTime:  at,
		})
	}
	content, size, err := e.open()
	if err != nil {
		return err
	}
	defer content.Close()
	header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: int64(e.mode.Perm()), Size: size, ModTime: at}
	if e.mode&fs.ModeSticky != 0 {
		header.Mode |= 0o1000
	}
	if e.mode.IsDir() {
		header.Typeflag, header.Name = tar.TypeDir, e.name+"/"
	}
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return err
}

// parents returns the directories above a name, the topmost first.
func parents(name string) []string {
	var dirs []string
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		dirs = append([]string{dir}, dirs...)
	}
	return dirs
}

func sortEntries(entries []entry) []entry {
	return slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return cmp.Compare(a.name, b.name) })
}

// writeTarGzip writes a compressed archive whose entries are below a folder.
func writeTarGzip(file, folder string, entries []entry, at time.Time) error {
	return createFile(file, func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		if err := writeTar(z, below(folder, entries), at); err != nil {
			return err
		}
		return z.Close()
	})
}

// writeZip writes a ZIP archive whose entries are below a folder.
func writeZip(file, folder string, entries []entry, at time.Time) error {
	return createFile(file, func(w io.Writer) error {
		z := zip.NewWriter(w)
		for _, e := range sortEntries(below(folder, entries)) {
			header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
			header.SetMode(e.mode)
			f, err := z.CreateHeader(header)
			if err != nil {
				return err
			}
			content, _, err := e.open()
			if err != nil {
				return err
			}
			_, err = io.Copy(f, content)
			content.Close()
			if err != nil {
				return err
			}
		}
		return z.Close()
	})
}

// below returns the entries with their names below a folder.
func below(folder string, entries []entry) []entry {
	moved := slices.Clone(entries)
	for i := range moved {
		moved[i].name = path.Join(folder, moved[i].name)
	}
	return moved
}

// writeGzip writes a compressed file.
func writeGzip(file string, text []byte) error {
	return createFile(file, func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := io.Copy(z, bytes.NewReader(text)); err != nil {
			return err
		}
		return z.Close()
	})
}

// createFile creates a file with what write writes. The file is closed in any case.
func createFile(file string, write func(io.Writer) error) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// writeOutput writes the standard output of a program into a file.
func (r *release) writeOutput(ctx context.Context, file, program string, args ...string) error {
	return createFile(file, func(w io.Writer) error {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Stdout, cmd.Stderr = w, os.Stderr
		return cmd.Run()
	})
}

// directoryEntries returns the files below a directory, with their names below folder. Programs
// stay executable.
func directoryEntries(dir, folder string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		entries = append(entries, entry{name: path.Join(folder, filepath.ToSlash(name)), mode: mode, from: file})
		return nil
	})
	return entries, err
}

// writeArchives writes an archive of all programs for each platform of Linux, and one of pilotctl
// for each platform. It returns an error if pilotctl is larger than maxClient.
func (r *release) writeArchives(context.Context) error {
	documents := []entry{
		{name: "LICENSE", mode: 0o644, from: filepath.Join(r.source.root, "LICENSE")},
		{name: "CHANGELOG.md", mode: 0o644, from: filepath.Join(r.source.root, "CHANGELOG.md")},
	}
	for _, p := range r.platforms {
		entries := slices.Clone(documents)
		for _, name := range linuxPrograms() {
			entries = append(entries, entry{name: "bin/" + name, mode: 0o755, from: r.program(p, name)})
		}
		for _, name := range documented() {
			shared, err := directoryEntries(r.share(name), "share")
			if err != nil {
				return err
			}
			entries = append(entries, shared...)
		}
		folder := "meshpilot-" + r.version
		if err := writeTarGzip(r.outPath(folder+"-"+p.String()+".tar.gz"), folder, entries, r.source.time); err != nil {
			return err
		}
	}
	for _, p := range slices.Concat(r.platforms, r.clients) {
		if err := r.writeClientArchive(p, documents); err != nil {
			return err
		}
	}
	return nil
}

// readTar returns the files and links of an archive whose names have one of the prefixes.
func readTar(r io.Reader, prefixes []string) ([]entry, error) {
	var entries []entry
	in := tar.NewReader(r)
	for {
		header, err := in.Next()
		if err == io.EOF {
			return entries, nil
		}
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(header.Name, "./")
		wanted := slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		switch {
		case !wanted:
		case header.Typeflag == tar.TypeReg:
			text, err := io.ReadAll(in)
			if err != nil {
				return nil, err
			}
			entries = append(entries, entry{name: name, mode: header.FileInfo().Mode(), text: string(text)})
		case header.Typeflag == tar.TypeSymlink:
			entries = append(entries, entry{name: name, target: header.Linkname})
		}
	}
}
