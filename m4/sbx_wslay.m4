dnl SPDX-License-Identifier: Apache-2.0
dnl SBX_LIB_WSLAY: wslay ships no pkg-config file on Debian 12, so header and
dnl library are looked for directly. Sets WSLAY_CFLAGS and WSLAY_LIBS;
dnl --with-wslay=PREFIX names another place.
AC_DEFUN([SBX_LIB_WSLAY], [
  AC_ARG_WITH([wslay],
    [AS_HELP_STRING([--with-wslay=PREFIX], [where wslay is installed])],
    [], [with_wslay=yes])
  AC_ARG_VAR([WSLAY_CFLAGS], [C compiler flags for wslay])
  AC_ARG_VAR([WSLAY_LIBS], [linker flags for wslay])
  AS_IF([test "x$WSLAY_LIBS" = x], [
    WSLAY_LIBS="-lwslay"
    AS_CASE([$with_wslay],
      [yes|no], [],
      [WSLAY_CFLAGS="-I$with_wslay/include"
       WSLAY_LIBS="-L$with_wslay/lib -lwslay"])
  ])
  save_CPPFLAGS="$CPPFLAGS"; save_LIBS="$LIBS"
  CPPFLAGS="$CPPFLAGS $WSLAY_CFLAGS"
  LIBS="$WSLAY_LIBS $LIBS"
  AC_MSG_CHECKING([for wslay])
  AC_LINK_IFELSE([AC_LANG_PROGRAM(
      [[#include <wslay/wslay.h>]],
      [[wslay_frame_context_ptr c = 0; wslay_frame_context_free(c);]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([wslay not found (Debian: libwslay-dev)])])
  CPPFLAGS="$save_CPPFLAGS"; LIBS="$save_LIBS"
])
