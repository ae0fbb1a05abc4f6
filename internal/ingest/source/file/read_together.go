package file

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/meshpilot/meshpilot/internal/base/watch"
)

const (
	// maxCompared limits the files that are compared after each reading. In larger directories only
	// the files of the reading itself are compared, so that the cost of a change does not depend on
	// the size of the directory.
	maxCompared = 1000
	// maxTogether limits how often files are read again because others were replaced during the
	// reading.
	maxTogether = 10
)

// readTogether reads files, and reads those again that were replaced before all of them were read.
// The result is the state of the directory at one moment: a change to one file after a change to
// another never appears without the earlier one. It includes files outside list that were replaced
// meanwhile. If files are replaced continuously, it stops after maxTogether readings and returns
// the last ones, which may belong to different moments.
//
// A file that is modified in place is not read again here: it may be incomplete, and further events
// will follow.
func (l *loop) readTogether(list []string) []reading {
	results := map[string]reading{}
	for range maxTogether {
		if len(list) == 0 {
			break
		}
		for _, r := range l.o.readAll(l.root, list, l.store.manifests) {
			results[r.rel] = r
		}
		list = l.replacedFiles(results)
	}
	readings := make([]reading, 0, len(results))
	for _, rel := range slices.Sorted(maps.Keys(results)) {
		readings = append(readings, results[rel])
	}
	return readings
}

// replacedFiles returns the files, sorted, that were replaced by another file since they were read,
// nil if there are none. In large trees (maxCompared) it compares only the files in results. Files
// that cannot be examined, or are not regular, are left out.
func (l *loop) replacedFiles(results map[string]reading) (list []string) {
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
