package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// maxClient is the largest permitted size of pilotctl in bytes. It has up to 60 MB, 10 MB more if
// the generated validation of Envoy's types is linked, and 27 MB more if something in it calls
// methods by name. ADR 46 says what it consists of.
const maxClient = 64_000_000

// writeClientArchive writes the archive of pilotctl for one platform, with its man pages and
// completion where the platform has these. It returns an error if the program is larger than
// maxClient.
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
	info, err := os.Stat(program)
	if err != nil {
		return err
	}
	if info.Size() > maxClient {
		return fmt.Errorf("pilotctl for %s has %d bytes, more than %d", p, info.Size(), maxClient)
	}
	return write(file, folder, entries, r.source.time)
}
