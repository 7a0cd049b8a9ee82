package hotfix

// What only the tests of this package see.

const (
	CopyFolderMode = copyFolderMode
	SelinuxXattr   = selinuxXattr
)

type (
	Recreation = recreation
	Undoing    = undoing
)

var (
	NamespacedCapability = namespacedCapability
	ServiceName          = serviceName
	Release              = release
)
