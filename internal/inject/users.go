package inject

import (
	"strconv"
	"strings"
)

// defaultUser is whom the proxy runs as, and whose traffic is not captured.
const defaultUser = 1337

// Users are whom a proxy runs as.
type Users struct{ UID, GID int64 }

func (u Users) orDefault() Users {
	if u.UID == 0 {
		u.UID = defaultUser
	}
	if u.GID == 0 {
		u.GID = defaultUser
	}
	return u
}

// UsersOf gives the users that OpenShift has set aside for a namespace, by the namespace's annotations: the last of its range.
// Elsewhere they are zero.
func UsersOf(annotations map[string]string) Users {
	const uids, groups = "openshift.io/sa.scc.uid-range", "openshift.io/sa.scc.supplemental-groups"
	u := Users{}
	if last, ok := lastOf(annotations[uids]); ok {
		u.UID = last
	}
	text := annotations[groups]
	if text == "" {
		text = annotations[uids]
	}
	first, _, _ := strings.Cut(text, ",")
	if last, ok := lastOf(first); ok {
		u.GID = last
	}
	return u
}

// lastOf gives the end of a range in one of OpenShift's forms, first/size or first-last.
func lastOf(text string) (int64, bool) {
	if first, size, ok := strings.Cut(text, "/"); ok {
		f, err1 := strconv.ParseUint(first, 10, 32)
		n, err2 := strconv.ParseUint(size, 10, 32)
		return int64(f + n - 1), err1 == nil && err2 == nil && n > 0 //nolint:gosec // two numbers of 32 bits
	}
	if first, last, ok := strings.Cut(text, "-"); ok {
		_, err1 := strconv.ParseUint(first, 10, 32)
		l, err2 := strconv.ParseUint(last, 10, 32)
		return int64(l), err1 == nil && err2 == nil //nolint:gosec // a number of 32 bits
	}
	return 0, false
}
