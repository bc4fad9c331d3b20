dnl SPDX-License-Identifier: Apache-2.0
dnl SBX_LIB_LIBSSH2: the system's libssh2 when it is 1.11 or newer, else the
dnl one that tools/build-libssh2.sh made in build/deps, else the system's all
dnl the same: sbx-tunnel then does what that version can and says what it
dnl cannot. --with-libssh2=system|PREFIX decides otherwise. Sets
dnl LIBSSH2_CFLAGS, LIBSSH2_LIBS and libssh2_used, a line for the summary.
AC_DEFUN([SBX_LIB_LIBSSH2], [
  AC_ARG_WITH([libssh2],
    [AS_HELP_STRING([--with-libssh2=system|PREFIX],
      [which libssh2 (default: build/deps/libssh2 if the system's is older than 1.11)])],
    [], [with_libssh2=auto])
  libssh2_dir=""
  AS_CASE([$with_libssh2],
    [system|yes|no], [],
    [auto], [
      AS_IF([! $PKG_CONFIG --exists "libssh2 >= 1.11"], [
        libssh2_abs=`cd "$srcdir" && pwd`/build/deps/libssh2
        AS_IF([test -f "$libssh2_abs/lib/pkgconfig/libssh2.pc"],
          [libssh2_dir="$libssh2_abs"])
      ])],
    [libssh2_dir="$with_libssh2"])
  AS_IF([test "x$libssh2_dir" != x], [
    PKG_CONFIG_PATH="$libssh2_dir/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
    export PKG_CONFIG_PATH
  ])
  PKG_CHECK_MODULES([LIBSSH2], [libssh2 >= 1.10])
  libssh2_used="`$PKG_CONFIG --modversion libssh2` (${libssh2_dir:-system})"
  SBX_LIBSSH2_CHACHA
  AS_IF([$PKG_CONFIG --exists "libssh2 < 1.11"],
    [libssh2_used="$libssh2_used: no AEAD ciphers, no -etm MACs, no rsa-sha2 (tools/build-libssh2.sh builds 1.11.1)"])
])

dnl SBX_LIBSSH2_CHACHA: whether tunnel/chachapoly.c can stand in for libssh2's
dnl cipher of that name: exactly the version it was written for, linked
dnl statically; whether tunnel/openstate.c can open many channels at once, and
dnl tunnel/farwrap.c add what it lacks.
AC_DEFUN([SBX_LIBSSH2_CHACHA], [
  libssh2_chacha=no
  libssh2_open=no
  libssh2_wrap=no
  AS_IF([$PKG_CONFIG --exists "libssh2 = 1.11.1"], [
    sbx_save_LIBS="$LIBS"
    LIBS="$LIBSSH2_LIBS -lcrypto $LIBS"
    AC_MSG_CHECKING([whether libssh2's chacha20 can be replaced])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([int chachapoly_crypt(void);],
      [return chachapoly_crypt();])], [libssh2_chacha=yes])
    AC_MSG_RESULT([$libssh2_chacha])
    AS_IF([test "x$libssh2_chacha" = xyes &&
           test -f "$libssh2_dir/include/libssh2_open.h"], [
      libssh2_open=yes
      AC_DEFINE([HAVE_LIBSSH2_OPEN_H], [1],
        [libssh2 was built by tools/build-libssh2.sh, which says where in a
         session the state of opening a channel is])
      LIBS="-Wl,--wrap=_libssh2_packet_add $LIBS"
      AC_MSG_CHECKING([whether libssh2's messages can be translated])
      AC_LINK_IFELSE([AC_LANG_SOURCE([[
        #include <libssh2.h>
        int add(void) __asm__("__wrap__libssh2_packet_add");
        int really(void) __asm__("__real__libssh2_packet_add");
        int add(void) { return really(); }
        int main(void)
        { return libssh2_session_init_ex(0, 0, 0, 0) == 0; }]])],
        [libssh2_wrap=yes])
      AC_MSG_RESULT([$libssh2_wrap])
      AS_IF([test "x$libssh2_wrap" = xyes],
        [AC_DEFINE([HAVE_LIBSSH2_WRAP], [1],
          [tunnel/farwrap.c stands in libssh2's way])])
    ])
    LIBS="$sbx_save_LIBS"
  ])
  AM_CONDITIONAL([LIBSSH2_CHACHA], [test "x$libssh2_chacha" = xyes])
  AM_CONDITIONAL([LIBSSH2_WRAP], [test "x$libssh2_wrap" = xyes])
  AS_IF([test "x$libssh2_chacha" = xyes],
    [libssh2_used="$libssh2_used, chacha20-poly1305 by OpenSSL"])
  AS_IF([test "x$libssh2_open" = xno],
    [libssh2_used="$libssh2_used, opens one channel at a time"])
])
