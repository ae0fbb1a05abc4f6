package file

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/meshpilot/meshpilot/internal/base/watch"
)

const (
	// maxCompared bounds the files that are compared after each reading. In a larger directory only the files of the
	// reading itself are, so that the cost of a change does not grow with the directory.
	maxCompared = 1000
	// maxTogether bounds how often files are read because others were replaced meanwhile.
	maxTogether = 10
)

// readTogether reads files, and reads those again that were replaced before all of them were read. So what it returns is the
// state of the directory at one moment: a change that was made to one file after another file was changed never appears
// without that other change. It gives up after maxTogether readings, while somebody replaces files all the time.
//
// A file that is written to in place is not read again here: it may be half written, and its events are still to come.
func (l *loop) readTogether(list []string) []reading {
	results := map[string]reading{}
	for range maxTogether {
		if len(list) == 0 {
			break
		}
		for _, r := range l.o.read(l.root, list, l.store.manifests) {
			results[r.rel] = r
		}
		list = l.replaced(results)
	}
	readings := make([]reading, 0, len(results))
	for _, rel := range slices.Sorted(maps.Keys(results)) {
		readings = append(readings, results[rel])
	}
	return readings
}

// replaced returns the files, sorted, that another file has taken the place of since they were read.
func (l *loop) replaced(results map[string]reading) (list []string) {
	infos := make(map[string]watch.Info, len(results))
	if len(l.store.manifests) <= maxCompared {
		for rel, m := range l.store.manifests {
			infos[rel] = m.info
		}
	}
	for rel, r := range results {
		infos[rel] = r.info
	}
	for rel, info := range infos {
		now, err := watch.Stat(filepath.Join(l.root, filepath.FromSlash(rel)))
		if err == nil && info.Known() && now.Mode().IsRegular() && !info.SameFile(now) {
			list = append(list, rel)
		}
	}
	slices.Sort(list)
	return list
}
