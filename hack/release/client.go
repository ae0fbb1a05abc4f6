package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// maxClient is the largest permitted size of an archive with pilotctl. The program itself has about
// 95 MB; ADR 46 says of what.
const maxClient = 40 << 20

// writeClientArchive writes the archive of pilotctl for one platform, with its man pages and
// completion where the platform has these. It returns an error if it is larger than maxClient.
func (r *release) writeClientArchive(p platform, documents []entry) error {
	program := r.program(p, "pilotctl")
	entries := append(slices.Clone(documents), entry{name: filepath.Base(program), mode: 0o755, from: program})
	folder := "pilotctl-" + r.version
	file := r.outPath(folder + "-" + p.String())
	write := writeTarGzip
	if p.os == "windows" {
		file, write = file+".zip", writeZip
	} else {
		file += ".tar.gz"
		shared, err := directoryEntries(r.share("pilotctl"), "share")
		if err != nil {
			return err
		}
		entries = append(entries, shared...)
	}
	if err := write(file, folder, entries, r.source.time); err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxClient {
		err = fmt.Errorf("%s has %d bytes, more than %d", filepath.Base(file), info.Size(), maxClient)
	}
	return err
}
