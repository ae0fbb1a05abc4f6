package diskfull

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }

// diskSize is that of a disk.
const diskSize = "4m"

// disk is a small file system.
type disk struct {
	t    *testing.T
	path string
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	netns.Require(t)
	d := &disk{t: t, path: t.TempDir()}
	if err := unix.Mount("tmpfs", d.path, "tmpfs", 0, "size="+diskSize+",nr_inodes=2000,mode=0755"); err != nil {
		t.Fatalf("mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(d.path, unix.MNT_DETACH) })
	return d
}

// fill writes until not a byte is left. Directories and links may still be made, as on a disk with free inodes.
func (d *disk) fill() {
	d.t.Helper()
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 16, 1 << 12, 1} {
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, unix.ENOSPC) {
			d.t.Fatalf("fill the disk: %v", err)
		}
		err = nil
	}
	if err := os.WriteFile(filepath.Join(d.path, "probe"), []byte("x"), 0o600); !errors.Is(err, unix.ENOSPC) {
		d.t.Fatalf("the disk is not full: %v", err)
	}
	_ = os.Remove(filepath.Join(d.path, "probe")) // it is empty
}

func (d *disk) filler() string { return filepath.Join(d.path, "filler") }

func (d *disk) free() {
	d.t.Helper()
	if err := os.Remove(d.filler()); err != nil {
		d.t.Fatal(err)
	}
}

// remount makes the disk read-only, or writable again.
func (d *disk) remount(readOnly bool) {
	d.t.Helper()
	flags := uintptr(unix.MS_REMOUNT)
	if readOnly {
		flags |= unix.MS_RDONLY
	}
	if err := unix.Mount("", d.path, "", flags, ""); err != nil {
		d.t.Fatalf("remount: %v", err)
	}
}
