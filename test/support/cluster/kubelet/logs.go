package kubelet

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// openLog opens the log of the run that is about to begin. Each has a file of its own.
func (c *container) openLog() (*os.File, error) {
	path := c.pod.k.logFile(c.pod.namespace, c.pod.name, c.spec.Name, c.restarts)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	// Containers that run as another user open /dev/stdout again.
	if err := f.Chmod(0o666); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (k *kubelet) logFile(namespace, pod, container string, restarts int32) string {
	return k.filePath("logs", namespace+"_"+pod, container, strconv.Itoa(int(restarts))+".log")
}

// serveLogs returns a container's log: previous, tailLines, limitBytes and follow are honoured.
// Logs of deleted Pods are kept.
func (k *kubelet) serveLogs(w http.ResponseWriter, req *http.Request) {
	namespace, name, container := req.PathValue("namespace"), req.PathValue("pod"), req.PathValue("container")
	query := req.URL.Query()
	restarts := k.lastRun(namespace, name, container)
	if query.Get("previous") == "true" {
		restarts--
	}
	f, err := os.Open(k.logFile(namespace, name, container, restarts))
	if err != nil {
		http.Error(w, "no such log", http.StatusNotFound)
		return
	}
	defer f.Close()
	if err := skipToTail(f, query.Get("tailLines")); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	out := flushed{w}
	if limit, err := strconv.ParseInt(query.Get("limitBytes"), 10, 64); err == nil {
		_, _ = io.CopyN(out, f, limit) // the client may go
		return
	}
	_, err = io.Copy(out, f)
	if query.Get("follow") == "true" && err == nil {
		k.followLog(req.Context(), out, f, namespace, name, container)
	}
}

// lastRun finds the newest log of a container.
func (k *kubelet) lastRun(namespace, pod, container string) int32 {
	restarts := int32(0)
	for {
		if _, err := os.Stat(k.logFile(namespace, pod, container, restarts+1)); err != nil {
			return restarts
		}
		restarts++
	}
}

// followInterval is how often a log that is followed is looked at.
const followInterval = 100 * time.Millisecond

// followLog copies new lines of a log while its container runs.
func (k *kubelet) followLog(ctx context.Context, out io.Writer, f *os.File, namespace, name, container string) {
	for {
		p := k.podBy(func(p *pod) bool { return p.namespace == namespace && p.name == name })
		running := p != nil
		if running {
			_, err := p.runningProcess(container)
			running = err == nil
		}
		if _, err := io.Copy(out, f); err != nil || !running || !sleepFor(ctx, followInterval) {
			return
		}
	}
}

// skipToTail seeks to the start of the last lines.
func skipToTail(f *os.File, lines string) error {
	if lines == "" {
		return nil // all of it
	}
	n, err := strconv.Atoi(lines)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	at := len(text)
	for range n {
		if at <= 0 {
			break
		}
		at = bytes.LastIndexByte(text[:at-1], '\n') + 1
	}
	_, err = f.Seek(int64(at), io.SeekStart)
	return err
}

// flushed sends each write at once.
type flushed struct{ http.ResponseWriter }

func (f flushed) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	if flusher, ok := f.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
	return n, err
}
