package localmesh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/meshpilot/meshpilot/hack"
)

// Programs are the paths of the programs of a mesh.
type Programs struct {
	Discovery, Agent, Capture, Envoy string
}

// FindPrograms looks for the programs of a mesh: in binDir, or if that is empty beside this program
// and then in PATH. envoy is the path of an Envoy; if empty, that of the user's cache is used, and
// fetched first if necessary. progress, if not nil, is called with the messages of that. It returns
// an error if a program is missing.
func FindPrograms(ctx context.Context, binDir, envoy string, progress func(string)) (Programs, error) {
	var p Programs
	for _, wanted := range []struct {
		name string
		path *string
	}{{"pilot-discovery", &p.Discovery}, {"pilot-agent", &p.Agent}, {"istio-iptables", &p.Capture}} {
		found, err := findProgram(binDir, wanted.name)
		if err != nil {
			return Programs{}, err
		}
		*wanted.path = found
	}
	var err error
	if p.Envoy, err = findEnvoy(ctx, envoy, progress); err != nil {
		return Programs{}, err
	}
	return p, nil
}

// findProgram returns the absolute path of a program of this project, see FindPrograms. It is
// looked up in binDir if that is set, otherwise beside this program and in PATH.
func findProgram(binDir, name string) (string, error) {
	if binDir != "" {
		path, err := filepath.Abs(filepath.Join(binDir, name))
		if err == nil {
			_, err = exec.LookPath(path)
		}
		if err != nil {
			return "", fmt.Errorf("%s is not in the directory --bin %s: %w", name, binDir, err)
		}
		return path, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
		return path, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside pilotctl (%s) nor in PATH; --bin names its directory", name,
			filepath.Dir(self))
	}
	return filepath.Abs(path)
}

// findEnvoy returns the absolute path of Envoy, which must be executable, see FindPrograms. Without
// a path it downloads Envoy by a script, whose messages are passed to progress, and which prints
// the path.
func findEnvoy(ctx context.Context, path string, progress func(string)) (string, error) {
	if path != "" {
		abs, err := filepath.Abs(path)
		if err == nil {
			_, err = exec.LookPath(abs)
		}
		if err != nil {
			return "", fmt.Errorf("envoy (--envoy, ENVOY): %w", err)
		}
		return abs, nil
	}
	cmd := exec.CommandContext(ctx, "bash", "-s")
	cmd.Stdin = strings.NewReader(hack.FetchEnvoy)
	var messages bytes.Buffer
	cmd.Stderr = &lineWriter{buffer: &messages, progress: progress}
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("fetching Envoy: %w; --envoy or ENVOY names an Envoy (%s)", err,
			lastLine(messages.String()))
	}
	if path = lastLine(string(out)); path == "" {
		return "", errors.New("fetching Envoy: no path was printed; --envoy or ENVOY names an Envoy")
	}
	return path, nil
}

// lineWriter records what is written and reports it.
type lineWriter struct {
	buffer   *bytes.Buffer
	progress func(string)
}

// Write implements io.Writer. It passes each text to progress, if set, and appends it to the
// buffer; it never fails.
func (w *lineWriter) Write(text []byte) (int, error) {
	if w.progress != nil {
		w.progress(strings.TrimSpace(string(text)))
	}
	return w.buffer.Write(text)
}

// lastLine returns the last line of a text that is not empty. Spaces around the text are removed.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
