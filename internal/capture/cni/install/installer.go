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

	"github.com/meshpilot/meshpilot/internal/capture/cni"
)

// recheck is how often everything is looked at without a sign of change: not all file systems give signs.
const recheck = time.Minute

// settle is how long the installer waits after a sign of change for more of them.
const settle = 50 * time.Millisecond

// Installer puts the plugin onto a node.
type Installer struct {
	options Options
	log     *slog.Logger
	since   atomic.Pointer[time.Time] // nil: not everything is in place
	config  string                    // the file that our entry was put into
}

// New makes an Installer. Nothing is touched before Run.
func New(o Options, log *slog.Logger) (*Installer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Installer{options: o, log: log}, nil
}

// Ready reports whether everything is in place.
func (i *Installer) Ready() bool { return i.since.Load() != nil }

// Since reports since when everything has been in place, and whether it is.
func (i *Installer) Since() (time.Time, bool) {
	if since := i.since.Load(); since != nil {
		return *since, true
	}
	return time.Time{}, false
}

// Run keeps the plugin on the node until ctx ends, and then takes it away. It waits for a node that has no network configuration yet.
func (i *Installer) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching the node's files: %w", err)
	}
	defer watcher.Close()
	for _, dir := range append([]string{i.options.NetDir, i.options.ServiceAccount, i.options.RunDir}, i.options.BinDirs...) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("watching the node's files: %w", err)
		}
		if err := watcher.Add(dir); err != nil {
			return fmt.Errorf("watching the node's files in %s: %w", dir, err)
		}
	}
	for {
		i.install()
		if !i.changed(ctx, watcher) {
			i.since.Store(nil)
			return i.remove()
		}
	}
}

// changed waits until it is time to look again; false: ctx has ended.
func (i *Installer) changed(ctx context.Context, w *fsnotify.Watcher) bool {
	timer := time.NewTimer(recheck)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case err := <-w.Errors:
			i.log.Warn("signs of change were lost", "error", err)
			return true
		case e := <-w.Events:
			// What a file that is being written is called is nothing to look at.
			if !strings.HasSuffix(e.Name, ".tmp") && e.Op != fsnotify.Chmod {
				timer.Reset(settle)
			}
		}
	}
}

// install puts in place what is not. The entry comes last: from then on the runtime calls the plugin.
func (i *Installer) install() {
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"the program", i.putPrograms}, {"the kubeconfig", i.putKubeconfig}, {"the network configuration", i.putEntry},
	} {
		if err := step.do(); err != nil {
			i.since.Store(nil)
			i.log.Error("cannot install "+step.what+", will try again", "error", err)
			return
		}
	}
	now := time.Now()
	i.since.CompareAndSwap(nil, &now)
}

func (i *Installer) putPrograms() error {
	for _, dir := range i.options.BinDirs {
		path := filepath.Join(dir, cni.Name)
		wrote, err := putProgram(i.options.Program, path)
		if err != nil {
			return err
		}
		if wrote {
			i.log.Info("installed the program", "path", path)
		}
	}
	return nil
}

func (i *Installer) putKubeconfig() error {
	text, err := i.options.kubeconfig()
	if err != nil {
		return err
	}
	wrote, err := put(i.options.kubeconfigPath(), text, i.options.KubeconfigMode)
	if wrote && err == nil {
		i.log.Info("wrote the kubeconfig", "path", i.options.kubeconfigPath())
	}
	return err
}

func (i *Installer) putEntry() error {
	path, err := i.options.configPath()
	if err != nil {
		return err
	}
	entry, err := i.options.entry()
	if err != nil {
		return err
	}
	if i.config != "" && i.config != path {
		i.log.Warn("another network configuration comes first now", "path", path, "before", i.config)
		if err := i.takeEntry(); err != nil {
			return err
		}
	}
	if i.options.Alone {
		entry["cniVersion"] = entryVersion
		text, err := entry.text()
		if err != nil {
			return err
		}
		return i.putConfig(path, path, text, 0o600)
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
		return fmt.Errorf("adding the plugin to %s: %w", path, err)
	}
	to := path
	if !strings.HasSuffix(path, listExtension) { // it is a list from now on, and runtimes go by the name
		to = strings.TrimSuffix(path, filepath.Ext(path)) + listExtension
	}
	return i.putConfig(path, to, text, info.Mode().Perm())
}

func (i *Installer) putConfig(from, to string, text []byte, mode os.FileMode) error {
	i.config = to
	wrote, err := put(to, text, mode)
	if err != nil {
		return err
	}
	if wrote {
		i.log.Info("added the plugin to the network configuration", "path", to)
	}
	if from != to {
		return remove(from)
	}
	return nil
}

// remove takes away all that was installed. The entry goes first: a runtime that calls a plugin which is not there starts no pod.
func (i *Installer) remove() error {
	err := i.takeEntry()
	err = errors.Join(err, remove(i.options.kubeconfigPath()))
	for _, dir := range i.options.BinDirs {
		err = errors.Join(err, remove(filepath.Join(dir, cni.Name)))
	}
	if err != nil {
		return fmt.Errorf("removing the plugin from the node: %w", err)
	}
	i.log.Info("removed the plugin from the node")
	return nil
}

// takeEntry removes our entry from where it was put.
func (i *Installer) takeEntry() error {
	if i.config == "" {
		return nil
	}
	path := i.config
	i.config = ""
	if i.options.Alone {
		return remove(path)
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
	_, err = put(path, text, info.Mode().Perm())
	return err
}
