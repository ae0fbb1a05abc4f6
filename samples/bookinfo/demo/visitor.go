package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// execGrace is what a command has between SIGTERM and SIGKILL when whoever asked for it has gone.
const execGrace = 2 * time.Second

func knock(dir string) (*net.UnixConn, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(dir, doorName), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("no demo is running in %s: %w", dir, err)
	}
	return conn, nil
}

// answers reports whether somebody is behind a door.
func answers(door string) bool {
	conn, err := knock(filepath.Dir(door))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// askExec runs a command in a pod with this process's standard files, environment and directory, and returns its exit
// status.
func askExec(dir, pod string, args []string) (int, error) {
	conn, err := knock(dir)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	wd, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	req := request{Pod: pod, Args: args, Env: []string{"TERM=" + os.Getenv("TERM")}, Dir: wd}
	if err := send(conn, req, []*os.File{os.Stdin, os.Stdout, os.Stderr}); err != nil {
		return 0, err
	}
	return receiveReply(conn)
}

func receiveReply(conn *net.UnixConn) (status int, err error) {
	var r reply
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		return 0, fmt.Errorf("the demo went away: %w", err)
	}
	if r.Error != "" {
		return 0, errors.New(r.Error)
	}
	return r.Status, nil
}

// askStop ends a demo and waits until it has.
func askStop(dir string) error {
	conn, err := knock(dir)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := send(conn, request{Stop: true}, nil); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, conn)
	if errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	return err
}

func send(conn *net.UnixConn, req request, files []*os.File) error {
	text, err := json.Marshal(req)
	if err != nil {
		return err
	}
	if len(text) > maxRequest {
		return fmt.Errorf("the command is %d bytes long, more than %d", len(text), maxRequest)
	}
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	var oob []byte
	if len(fds) > 0 {
		oob = syscall.UnixRights(fds...)
	}
	if _, _, err := conn.WriteMsgUnix(text, oob, nil); err != nil {
		return fmt.Errorf("asking the demo: %w", err)
	}
	return nil
}
