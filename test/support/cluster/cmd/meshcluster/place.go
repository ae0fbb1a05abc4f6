package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"
)

// place is the directory of a cluster that runs or is being started.
type place struct{ name, dir string }

// state describes a running cluster.
type state struct {
	// PID is the process that runs it, NodePID one in the node's namespaces; 0 without a node.
	PID, NodePID int
	Kubeconfig   string
	// Error is the reason of a failed start.
	Error string `json:",omitempty"`
}

func placeOf(name string) (place, error) {
	if !regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`).MatchString(name) {
		return place{}, fmt.Errorf("a cluster cannot be called %q: small letters, digits and dashes", name)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return place{}, err
	}
	return place{name, filepath.Join(cache, "meshpilot", "clusters", name)}, nil
}

func (p place) filePath(name string) string { return filepath.Join(p.dir, name) }

// The files of a place, besides the cluster's own.
const (
	lockName  = "lock"       // locked by the process that runs the cluster
	stateName = "state.json" // see state
	logName   = "up.log"     // log of that process
)

// lockPlace locks a place. It fails if the place is locked, because then the cluster runs.
func (p place) lockPlace() (*os.File, error) {
	f, err := os.OpenFile(p.filePath(lockName), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("the cluster %s is up", p.name)
	}
	return f, nil
}

// isUp reports whether a process runs the cluster.
func (p place) isUp() bool {
	f, err := p.lockPlace()
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	f.Close()
	return false
}

// currentState returns the state of a cluster that is up.
func (p place) currentState() (state, error) {
	if !p.isUp() {
		return state{}, fmt.Errorf("the cluster %s is not up: meshcluster up --name %s", p.name, p.name)
	}
	return p.readState()
}

func (p place) readState() (s state, err error) {
	text, err := os.ReadFile(p.filePath(stateName))
	if err != nil {
		return state{}, err
	}
	return s, json.Unmarshal(text, &s)
}

// writeState writes the state at once: who reads it reads all of it.
func (p place) writeState(s state) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(p.filePath(stateName+".tmp"), text, 0o600); err != nil {
		return err
	}
	return os.Rename(p.filePath(stateName+".tmp"), p.filePath(stateName))
}
