package nacos

import (
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
)

// closedStream is a stream on which sending fails.
type closedStream struct {
	grpc.ClientStream
	err error
}

func (s closedStream) SendMsg(any) error { return s.err }

// TestAcknowledgeAfterTheEnd acknowledges a push when the server has ended the stream: that is no
// error of its own, because receiving returns the reason. Other errors are returned.
func TestAcknowledgeAfterTheEnd(t *testing.T) {
	broken := errors.New("broken")
	for sent, want := range map[error]error{io.EOF: nil, broken: broken} {
		c := &connection{server: "nacos", stream: closedStream{err: sent}}
		if err := c.acknowledge(&push{kind: detectionRequest}); !errors.Is(err, want) {
			t.Errorf("after %v: %v, want %v", sent, err, want)
		}
	}
}
