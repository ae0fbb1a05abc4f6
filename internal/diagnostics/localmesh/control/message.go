package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// maxRequest bounds everything that a client sends on one connection, in bytes. The environment of
// a command is the largest part.
const maxRequest = 4 << 20

// maxFiles bounds the descriptors of a request.
const maxFiles = 3

// Request is what a client asks for.
type Request struct {
	// Action selects the handler.
	Action string `json:"action"`
	// Node is the name of the node that the action is about.
	Node string `json:"node,omitempty"`
	// Args are a command with its arguments, Env its environment and Dir its working directory.
	Args []string `json:"args,omitempty"`
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"`
	// Spec are further parameters of the action.
	Spec json.RawMessage `json:"spec,omitempty"`
}

// signalMessage asks to send a signal to the command of the request.
type signalMessage struct {
	Signal syscall.Signal `json:"signal"`
}

// reply is one line of the answer. The last one has Done set.
type reply struct {
	Progress string          `json:"progress,omitempty"`
	Done     bool            `json:"done,omitempty"`
	Status   int             `json:"status,omitempty"`
	Error    string          `json:"error,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
}

// errDisconnected is the error of a client that sent nothing.
var errDisconnected = errors.New("the client sent no request")

// readFirst reads the first part of a request, with the descriptors that were sent with it. It
// returns errDisconnected if there is none. Descriptors are closed on exec; the caller must close
// files, also on an error.
func readFirst(conn *net.UnixConn) (text []byte, files []*os.File, err error) {
	buf, oob := make([]byte, 64<<10), make([]byte, syscall.CmsgSpace(maxFiles*4))
	n, oobn, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil || n == 0 {
		return nil, nil, errors.Join(errDisconnected, err)
	}
	messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, nil, fmt.Errorf("reading the descriptors of a request: %w", err)
	}
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return nil, files, fmt.Errorf("reading the descriptors of a request: %w", err)
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "client"))
		}
	}
	return buf[:n], files, nil
}

// writeFirst sends a request as JSON, with descriptors of files in its first part. It refuses more
// than maxRequest bytes before it sends anything. The caller still owns files.
func writeFirst(conn *net.UnixConn, request Request, files []*os.File) error {
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if len(text) > maxRequest {
		return fmt.Errorf("the request has %d bytes, more than %d", len(text), maxRequest)
	}
	var oob []byte
	if len(files) > 0 {
		var fds []int
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		oob = syscall.UnixRights(fds...)
	}
	first := text[:min(len(text), 32<<10)]
	n, _, err := conn.WriteMsgUnix(first, oob, nil)
	if err != nil {
		return err
	}
	if n < len(text) { // an empty message is an error if the server has answered already
		_, err = conn.Write(text[n:])
	}
	return err
}
