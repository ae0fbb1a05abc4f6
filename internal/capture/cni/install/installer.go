package install

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshpilot/meshpilot/internal/capture/cni"
)

// recheckInterval is how often everything is checked without an event, because not all file systems
// have events.
const recheckInterval = time.Minute

// settleDelay is how long the installer waits for further events before it checks.
const settleDelay = 50 * time.Millisecond

// Installer keeps the plugin installed on a node.
type Installer struct {
	options        Options
	log            *slog.Logger
	installedSince atomic.Pointer[time.Time] // nil if not everything is installed
	configFile     string                    // the file with the plugin's entry, "" if there is none
	installs       *prometheus.CounterVec    // by result
	changed        bool                      // the running installAll has written a file
}

// New returns an Installer, and registers its metrics if o.Metrics is set. It fails if the options
// are invalid.
func New(o Options, log *slog.Logger) (*Installer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	i := &Installer{options: o, log: log}
	i.installs = newInstalls(o.Metrics, i.Ready)
	return i, nil
}

// Ready reports whether everything is installed.
func (i *Installer) Ready() bool { return i.installedSince.Load() != nil }

// InstalledSince returns since when everything has been installed without interruption. It returns
// false if something is not installed.
func (i *Installer) InstalledSince() (time.Time, bool) {
	if since := i.installedSince.Load(); since != nil {
		return *since, true
	}
	return time.Time{}, false
}

// Run keeps the plugin installed until ctx ends, and then removes it. It creates missing
// directories. Failed steps are logged and retried, also while the node has no network
// configuration. It returns an error if the node's files cannot be watched or the plugin cannot be
// removed.
func (i *Installer) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch the node's files: %w", err)
	}
	defer watcher.Close()
	dirs := append([]string{i.options.NetDir, i.options.ServiceAccount, i.options.RunDir}, i.options.BinDirs...)
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("watch the node's files: %w", err)
		}
		if err := watcher.Add(dir); err != nil {
			return fmt.Errorf("watch the node's files in %s: %w", dir, err)
		}
	}
	for {
		i.installAll()
		if !i.waitForChange(ctx, watcher) {
			i.installedSince.Store(nil)
			return i.uninstall()
		}
	}
}

// waitForChange waits for file events to settle or recheckInterval to pass. It returns at once if
// events may have been lost, which it logs. It returns false if ctx has ended, otherwise true.
// Temporary files and changes of modes are ignored.
func (i *Installer) waitForChange(ctx context.Context, w *fsnotify.Watcher) bool {
	timer := time.NewTimer(recheckInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case err := <-w.Errors:
			i.log.Warn("file events may have been lost, checking all files", "error", err)
			return true
		case e := <-w.Events:
			// Temporary files of a replacement are ignored.
			if !strings.HasSuffix(e.Name, ".tmp") && e.Op != fsnotify.Chmod {
				timer.Reset(settleDelay)
			}
		}
	}
}

// installAll installs all parts that are missing or differ. The configuration entry is last,
// because the runtime calls the plugin from then on. At the first error it stops, logs it and marks
// the plugin as not installed. On success it records the time, unless everything was installed
// before. It counts failures, and successes that have changed something.
func (i *Installer) installAll() {
	i.changed = false
	for _, step := range []struct {
		what, failure string
		do            func() error
	}{
		{"the program", programFailed, i.installPrograms},
		{"the kubeconfig", kubeconfigFailed, i.writeKubeconfig},
		{"the network configuration", configFailed, i.addEntry},
	} {
		if err := step.do(); err != nil {
			i.installedSince.Store(nil)
			i.installs.WithLabelValues(step.failure).Inc()
			i.log.Error("cannot install "+step.what+", retrying", "error", err)
			return
		}
	}
	now := time.Now()
	if i.installedSince.CompareAndSwap(nil, &now) || i.changed {
		i.installs.WithLabelValues(succeeded).Inc()
	}
}

// logChange logs that a file was written, and records it in i.changed.
func (i *Installer) logChange(message, path string) {
	i.changed = true
	i.log.Info(message, "path", path)
}

// installPrograms copies the program to all directories where it is missing or differs. It stops at
// the first error.
func (i *Installer) installPrograms() error {
	for _, dir := range i.options.BinDirs {
		path := filepath.Join(dir, cni.Name)
		wrote, err := copyProgram(i.options.Program, path)
		if err != nil {
			return err
		}
		if wrote {
			i.logChange("installed program", path)
		}
	}
	return nil
}

// writeKubeconfig writes the plugin's kubeconfig if it differs, and logs that. It returns
// an error if the token or CA cannot be read, or the file cannot be written.
func (i *Installer) writeKubeconfig() error {
	text, err := i.options.kubeconfig()
	if err != nil {
		return err
	}
	wrote, err := writeIfChanged(i.options.kubeconfigPath(), text, i.options.KubeconfigMode)
	if wrote && err == nil {
		i.logChange("wrote kubeconfig", i.options.kubeconfigPath())
	}
	return err
}

// addEntry adds the plugin's entry to the network configuration, which becomes a list with the
// extension .conflist and keeps its mode. If Standalone is set, it writes a configuration of its
// own instead. If another configuration has become the first, it moves the entry there, with a
// warning. It returns an error if there is no configuration or it is invalid.
func (i *Installer) addEntry() error {
	path, err := i.options.configPath()
	if err != nil {
		return err
	}
	entry, err := i.options.pluginEntry()
	if err != nil {
		return err
	}
	if i.configFile != "" && i.configFile != path {
		i.log.Warn("another network configuration is the first now, moving the plugin to it",
			"path", path, "previous", i.configFile)
		if err := i.dropEntry(); err != nil {
			return err
		}
	}
	if i.options.Standalone {
		entry["cniVersion"] = entryVersion
		text, err := entry.encode()
		if err != nil {
			return err
		}
		return i.writeConfig(path, path, text, i.options.ConfMode)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := withEntry(old, entry)
	if err != nil {
		return fmt.Errorf("add the plugin to %s: %w", path, err)
	}
	to := path
	if !strings.HasSuffix(path, listExtension) { // runtimes require the extension of a list
		to = strings.TrimSuffix(path, filepath.Ext(path)) + listExtension
	}
	return i.writeConfig(path, to, text, info.Mode().Perm())
}

// writeConfig writes a configuration to a path, unless the file has it already, and removes the
// file it replaces if that has another name. It records the path in i.configFile, also if it fails.
func (i *Installer) writeConfig(from, to string, text []byte, mode os.FileMode) error {
	i.configFile = to
	wrote, err := writeIfChanged(to, text, mode)
	if err != nil {
		return err
	}
	if wrote {
		i.logChange("added plugin to network configuration", to)
	}
	if from != to {
		return removeFile(from)
	}
	return nil
}

// uninstall removes everything that was installed. The configuration entry is first: a runtime that
// calls a missing plugin starts no pod. It tries all steps and returns their errors; missing files
// are none.
func (i *Installer) uninstall() error {
	err := i.dropEntry()
	err = errors.Join(err, removeFile(i.options.kubeconfigPath()))
	for _, dir := range i.options.BinDirs {
		err = errors.Join(err, removeFile(filepath.Join(dir, cni.Name)))
	}
	if err != nil {
		return fmt.Errorf("remove the plugin from the node: %w", err)
	}
	i.log.Info("removed plugin from the node")
	return nil
}

// dropEntry removes the plugin's entry from the configuration, or the whole file if it is
// standalone, and forgets the file, also if it fails. It does nothing if it has not added an entry,
// or the entry or the file is gone. A file that cannot be read, parsed or written is an error.
func (i *Installer) dropEntry() error {
	if i.configFile == "" {
		return nil
	}
	path := i.configFile
	i.configFile = ""
	if i.options.Standalone {
		return removeFile(path)
	}
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, was, err := withoutEntry(text)
	if err != nil || !was {
		return err
	}
	_, err = writeIfChanged(path, text, info.Mode().Perm())
	return err
}
