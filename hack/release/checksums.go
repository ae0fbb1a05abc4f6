package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// checksumFile lists the hashes of all other files.
const checksumFile = "SHA256SUMS"

// writeChecksums writes the hashes of all files of the release, in the format of sha256sum.
func (r *release) writeChecksums(context.Context) error {
	entries, err := directoryEntries(r.out, "")
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range sortEntries(entries) {
		sum, err := hashFile(e.from)
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, e.name)
	}
	return createFile(r.outPath(checksumFile), func(w io.Writer) error {
		_, err := io.WriteString(w, sums.String())
		return err
	})
}

// reportSizes prints the sizes of the programs and of the files of the release.
func (r *release) reportSizes() error {
	for _, dir := range []string{path.Join(r.work, "programs"), r.out} {
		entries, err := directoryEntries(dir, "")
		if err != nil {
			return err
		}
		for _, e := range sortEntries(entries) {
			info, err := os.Stat(e.from)
			if err != nil {
				return err
			}
			if !strings.HasPrefix(e.name, "images/") {
				fmt.Printf("%8.1f MiB  %s\n", float64(info.Size())/(1<<20), e.name)
			}
		}
	}
	return nil
}
