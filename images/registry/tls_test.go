package registry_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"vfix.dev/vfix/images/media"
	own "vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// authority is one that signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: imagetest.Must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority"}, IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der := imagetest.Must[[]byte](t)(x509.CreateCertificate(rand.Reader, a.cert, a.cert, a.key.Public(), a.key))
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// sign gives a certificate and its key in PEM form.
func (a *authority) sign(t *testing.T, usage x509.ExtKeyUsage) (cert, key []byte) {
	t.Helper()
	k := imagetest.Must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	c := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "somebody"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{usage}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	der := imagetest.Must[[]byte](t)(x509.CreateCertificate(rand.Reader, c, a.cert, k.Public(), a.key))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: imagetest.Must[[]byte](t)(x509.MarshalPKCS8PrivateKey(k))})
}

// A registry with a private authority that requires a client certificate: both are found in the directory with its
// name, and without either nothing is sent.
func TestRegistryTLS(t *testing.T) {
	imagetest.NewRegistry(t) // for the credentials' environment
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	t.Setenv("HOME", config)
	a := newAuthority(t)
	cert, key := a.sign(t, x509.ExtKeyUsageServerAuth)
	pair := imagetest.Must[tls.Certificate](t)(tls.X509KeyPair(cert, key))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.pem)
	s := httptest.NewUnstartedServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	host := strings.TrimPrefix(s.URL, "https://")
	dir := filepath.Join(config, "docker", "certs.d", host)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	img := imagetest.TinyImage(t)
	try := func(o media.Options) error {
		_, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: host + "/a/tiny:1"}, media.Result{Image: img}, o)
		return err
	}
	imagetest.WantErr(t, try(imagetest.Fast), nil, "registry "+host, "certificate")
	imagetest.Write(t, filepath.Join(dir, "ca.crt"), a.pem)
	imagetest.WantErr(t, try(imagetest.Fast), nil, "registry "+host, "certificate required")
	mine, myKey := a.sign(t, x509.ExtKeyUsageClientAuth)
	imagetest.Write(t, filepath.Join(dir, "client.cert"), mine)
	imagetest.WantErr(t, try(imagetest.Fast), nil, filepath.Join(dir, "client.cert"), "client.key")
	imagetest.Write(t, filepath.Join(dir, "client.key"), myKey)
	shared := imagetest.Fast.WithDefaults()
	if err := try(shared); err != nil {
		t.Error(err)
	}
	// They are not those of another name of the same host.
	_, err := sources.Open(context.Background(), "docker://"+strings.Replace(host, "127.0.0.1", "localhost", 1)+"/a/tiny:1", shared)
	imagetest.WantErr(t, err, nil, "registry localhost", "certificate")
	imagetest.SameImage(t, imagetest.Open(t, "docker://"+host+"/a/tiny:1").Image, img)
	imagetest.Write(t, filepath.Join(dir, "ca.crt"), []byte("no certificate"))
	imagetest.WantErr(t, try(imagetest.Fast), hinterr.ErrDamaged, "ca.crt")
	o := imagetest.Fast
	o.Insecure = true
	imagetest.Write(t, filepath.Join(dir, "ca.crt"), newAuthority(t).pem) // another one
	imagetest.WantErr(t, try(imagetest.Fast), nil, "certificate")
	if err := try(o); err != nil {
		t.Errorf("--insecure: %v", err)
	}
}

// The certificate of a client is not an authority, and a directory without certificates changes nothing.
func TestClientCertificateAlone(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "reg.example")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	imagetest.Write(t, filepath.Join(at, "notes.txt"), nil)
	if c, err := own.HostTLS([]string{dir}, "reg.example"); c != nil || err != nil {
		t.Errorf("no certificates: got %+v, %v", c, err)
	}
	cert, key := newAuthority(t).sign(t, x509.ExtKeyUsageClientAuth)
	imagetest.Write(t, filepath.Join(at, "client.cert"), cert)
	imagetest.Write(t, filepath.Join(at, "client.key"), key)
	for _, host := range []string{"reg.example", "reg.example:443"} {
		if c, err := own.HostTLS([]string{dir}, host); err != nil || len(c.Certificates) != 1 || c.RootCAs != nil {
			t.Errorf("%s: got %+v, %v", host, c, err)
		}
	}
}

// hangsUp is a registry on this machine that closes TLS connections at once, also in the way of HTTP/2, and
// answers plain HTTP as TLS servers do. It counts the connections.
func hangsUp(t *testing.T, cert tls.Certificate, protocols ...string) (host string, connections *atomic.Int32) {
	t.Helper()
	l := imagetest.Must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { l.Close() })
	connections = &atomic.Int32{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := bufio.NewReader(c)
				const handshake = 22 // RFC 8446, 5.1
				if first, err := b.Peek(1); err != nil || first[0] != handshake {
					_, _ = http.ReadRequest(b)
					_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
					return
				}
				connections.Add(1)
				s := tls.Server(peeked{c, b}, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: protocols})
				_ = s.Handshake()
			}()
		}
	}()
	return l.Addr().String(), connections
}

// peeked is a connection whose first bytes were examined.
type peeked struct {
	net.Conn
	r io.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.r.Read(b) }

// A connection that breaks when it is made is tried again, and the answer to plain HTTP hides nothing.
func TestRegistryHangsUp(t *testing.T) {
	imagetest.NewRegistry(t) // for the credentials' environment
	a := newAuthority(t)
	cert, key := a.sign(t, x509.ExtKeyUsageServerAuth)
	pair := imagetest.Must[tls.Certificate](t)(tls.X509KeyPair(cert, key))
	o := imagetest.Fast
	o.Insecure = true
	for _, protocol := range []string{"http/1.1", "h2"} {
		host, connections := hangsUp(t, pair, protocol)
		_, err := sources.Open(context.Background(), "docker://"+host+"/a/tiny:1", o)
		imagetest.WantErr(t, err, nil, "registry "+host)
		said := strings.ReplaceAll(err.Error(), host, "") // a port may have the number of a status
		if n := connections.Load(); n < 3 || strings.Contains(said, "400") {
			t.Errorf("%s: got %d connections, %v, want 3 at least and what is wrong with TLS", protocol, n, err)
		}
	}
}
